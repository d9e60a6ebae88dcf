// Loaded before the style sheet, so that a chosen theme shows without a flash of the other.
const chosen = localStorage.getItem('theme')
if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen

// A script of the page, not a module of its own.
export {}
