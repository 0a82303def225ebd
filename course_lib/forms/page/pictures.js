(style) => {
  // The pictures of a lesson, put where the page looks for them in vain.
  const page = style.closest(".jp-Notebook");
  if (!page) return;
  const pictures = new Map();
  for (const image of style.parentNode.querySelectorAll("img")) pictures.set(image.dataset.name, image.src);
  const give = (image) => {
    const name = image.src.match(/assets\/[\w.-]+$/)?.[0] ?? image.src.match(/assets\/[^?#]+/)?.[0];
    if (name && pictures.has(name) && !image.naturalWidth) image.src = pictures.get(name);
  };
  const look = () => {
    for (const image of page.querySelectorAll(".jp-RenderedMarkdown img")) {
      if (image.complete) give(image);
      image.onerror = () => give(image);
    }
  };
  look();
  new MutationObserver(look).observe(page, {childList: true, subtree: true, attributeFilter: ["src"]});
}
