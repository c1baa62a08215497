/* Before anything is painted: the theme that the visitor chose the last time. */
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "auto";
