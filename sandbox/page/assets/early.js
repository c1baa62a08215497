/* Before anything is drawn: sets the theme that the visitor chose last time. */
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "auto";
