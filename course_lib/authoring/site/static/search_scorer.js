// In which order the search shows what it found: a word of the glossary, lessons, other pages, the library.
var Scorer = {
  score: ([page, , anchor, , score]) => {
    if (page === "glossary") return anchor ? score + 100 : score - 100;
    if (page.startsWith("lessons/")) return score + 50;
    return page.startsWith("library/") ? score - 50 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
