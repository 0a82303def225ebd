// A result of the search shows some words of its page. No code cell is among them: those hold answers.
if (typeof Search !== "undefined") {
  const textOfPage = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll("div.cell, .skip-to-content").forEach((cell) => cell.remove());
    return textOfPage(page.documentElement.outerHTML, anchor);
  };
}
