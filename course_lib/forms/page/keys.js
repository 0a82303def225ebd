(style) => {
  const form = style.closest(".course-form");
  if (!form) return;
  // What ipywidgets leaves without a name: pictures, the handles of sliders, groups of radio buttons.
  const name = () => {
    for (const image of form.querySelectorAll("img[title]")) {
      image.alt = image.title;
      image.removeAttribute("title");
    }
    for (const handle of form.querySelectorAll(".noUi-handle:not([aria-label])")) {
      const label = handle.closest(".course-paired")?.querySelector("label");
      if (label?.textContent) handle.setAttribute("aria-label", label.textContent);
    }
    // A slider of no use now keeps its place in the order of Tab, and shows nothing when it has the focus.
    for (const handle of form.querySelectorAll(".noUi-handle"))
      handle.tabIndex = handle.closest(".noUi-target").hasAttribute("disabled") ? -1 : 0;
    for (const group of form.querySelectorAll(".course-question .widget-radio-box:not([role])")) {
      group.setAttribute("role", "radiogroup");
      // Radio buttons of one name are one stop of the Tab key.
      const together = `course-${Math.random()}`;
      for (const radio of group.querySelectorAll("input")) radio.name = together;
      group.setAttribute("aria-label", group.closest(".course-question").querySelector("strong").textContent);
    }
  };
  name();
  if (form.dataset.courseKeys) return;
  form.dataset.courseKeys = "kept";
  new MutationObserver(name).observe(form, {childList: true, subtree: true, attributeFilter: ["title", "disabled"]});
  // A page that names no theme is asked for its ground; one in a frame may show through what lies below.
  const root = document.documentElement;
  const {dataset, className} = document.body;
  if (!dataset.jpThemeLight && !/\bvscode-/.test(className) && !root.hasAttribute("theme")) {
    let dark = window !== window.parent && matchMedia("(prefers-color-scheme: dark)").matches;
    for (let part = form; part; part = part.parentElement) {
      const [red, green, blue, opacity = 1] = getComputedStyle(part).backgroundColor.match(/[\d.]+/g).map(Number);
      if (!opacity) continue;
      dark = 0.22 * red + 0.77 * green + 0.01 * blue < 128;
      break;
    }
    root.dataset.courseGround = dark ? "dark" : "light";
  }
  // A busy button is not pressed a second time.
  form.addEventListener("click", (event) => {
    if (event.target.closest(".course-busy")) {
      event.stopPropagation();
      event.preventDefault();
    }
  }, true);
  // What is chosen as an answer is sent when its control is left or a button is pressed, not with each arrow: while
  // the kernel is busy, a page keeps back all changes of a control but the first, and not the press of a button.
  if (form.matches(".course-answers")) {
    const unsent = new Map();
    // What ipywidgets listens to, of menus and of radio buttons.
    const events = {SELECT: "change", INPUT: "click"};
    const group = (control) => control?.name || control;
    const keep = (event) => {
      const control = event.target;
      if (!event.isTrusted || !control.matches("select, input[type=radio]") || events[control.tagName] !== event.type)
        return;
      event.stopPropagation();
      unsent.set(group(control), control);
    };
    const send = (still) => {
      for (const [name, control] of unsent) {
        if (name === still) continue;
        unsent.delete(name);
        control.dispatchEvent(new Event(events[control.tagName], {bubbles: true}));
      }
    };
    form.addEventListener("change", keep, true);
    form.addEventListener("click", keep, true);
    form.addEventListener("focusout", (event) => send(group(event.relatedTarget)), true);
    form.addEventListener("click", (event) => event.target.closest("button") && send(), true);
  }
  // Shift+Enter goes on to the next cell, and leaves this one as it is: what was typed or chosen here is kept.
  form.addEventListener("keydown", (event) => {
    const cell = form.closest(".jp-Cell");
    if (event.key !== "Enter" || !event.shiftKey || event.ctrlKey || event.altKey || event.metaKey || !cell) return;
    event.preventDefault();
    event.stopPropagation();
    cell.focus();
    const down = {key: "ArrowDown", code: "ArrowDown", keyCode: 40, bubbles: true, cancelable: true};
    cell.dispatchEvent(new KeyboardEvent("keydown", down));
  }, true);
  // Letters and arrows are no commands of the notebook here. Escape, and what has Ctrl, Alt or Cmd, are; Shift+Enter
  // still is one where a page has no cells as JupyterLab's.
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape" || (event.key === "Enter" && event.shiftKey)) return;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    event.stopPropagation();
  });
  // A picture that code has made has a text in its output, and JupyterLab shows the picture without it.
  const page = form.closest(".jp-Notebook");
  if (!page || !window.jupyterapp || page.dataset.courseTexts) return;
  page.dataset.courseTexts = "given";
  const give = () => {
    const pictures = page.querySelectorAll(".jp-RenderedImage img:not([alt])");
    if (!pictures.length) return;
    const notebook = [...window.jupyterapp.shell.widgets("main")].find((each) => each.content?.node === page)?.content;
    for (const image of pictures) {
      const cell = notebook?.widgets.find((each) => each.node.contains(image));
      const output = image.closest(".jp-OutputArea-child");
      const place = [...output.parentNode.children].indexOf(output);
      image.alt = cell?.outputArea?.model.get(place)?.data["text/plain"] ?? "";
    }
  };
  give();
  new MutationObserver(give).observe(page, {childList: true, subtree: true});
}
