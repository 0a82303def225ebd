"""The form of a quiz: for each question its text, radio buttons, a button, and the feedback below."""

from __future__ import annotations

import ipywidgets as widgets

from course_lib.forms import Form
from course_lib.forms.show import panel, paragraph
from course_lib.learn.catalogue.quiz_spec import Question, lettered
from course_lib.learn.quizzes.answers import Answers

__all__ = ["QuestionForm", "QuizForm"]


class QuestionForm(widgets.VBox):
    """One question. The radio buttons select, the button answers: moving through them by arrow keys gives
    nothing away. The button stays when all is said, so that the focus does too.
    """

    def __init__(self, quiz: Answers, number: int, question: Question) -> None:
        self._quiz, self._question = quiz, question
        options = list(zip(lettered(question), range(len(question.choices)), strict=True))
        self.choice = widgets.RadioButtons(options=options, value=None, layout={"width": "auto"})
        self.button = widgets.Button(description=f"Answer question {number}", layout={"width": "max-content"})
        self.feedback = widgets.HTML()
        self.button.on_click(self._answer)
        text = widgets.HTML(f"<strong>{paragraph(f'{number}. {question.text}')}</strong>")
        super().__init__([text, self.choice, self.button, self.feedback])
        self.add_class("course-question")  # the radio buttons are given its text as their name

    def _answer(self, _: widgets.Button) -> None:
        if self.choice.value is None:
            self.feedback.value = paragraph("Choose an answer first.")
            return
        text = self._quiz.feedback(self._question, self._question.choices[self.choice.value])
        done = self._question.name in self._quiz.right
        self.feedback.value = panel("good" if done else "bad", "", paragraph(text))
        self.choice.disabled = done


class QuizForm(Form):
    """All questions of a quiz, and a line that counts those answered right."""

    def __init__(self, quiz: Answers) -> None:
        self.questions = tuple(
            QuestionForm(quiz, number, question) for number, question in enumerate(quiz.questions, start=1)
        )
        self.standing = widgets.HTML(paragraph(quiz.standing()))
        for question in self.questions:
            question.button.on_click(lambda _: setattr(self.standing, "value", paragraph(quiz.standing())))
        super().__init__([*self.questions, self.standing])
        self.add_class("course-answers")  # sent when they are complete, see keys.js
