// Buttons that stay where they are when they cannot be used: a press shows the reason and does nothing.

import { notify } from "/page/notifications.js";

export function setDisabledReason(button, reason) {
  if (reason) button.setAttribute("aria-disabled", "true");
  else button.removeAttribute("aria-disabled");
  button.title = reason;
}

export function onPress(button, action) {
  button.addEventListener("click", () => {
    if (button.getAttribute("aria-disabled")) notify(button.title);
    else action();
  });
}
