// Sign in with a token or a link, and what the page shows when one is not let in any more.
import { h } from "../dom.js";
import { icon } from "../icons.js";
import { api, BASE } from "../model/api.js";
import { visible } from "../text/visible.js";
import { T } from "../texts.js";

/** Take the token out of the address, so that nobody reads it there; "" if there is none. */
export function takeToken() {
  const fromHash = /^#token=([^&]+)/.exec(location.hash)?.[1];
  const fromQuery = new URLSearchParams(location.search).get("token");
  const token = fromHash ? decodeURIComponent(fromHash) : fromQuery || "";
  if (token || location.search) history.replaceState(null, "", BASE);
  return token;
}

/** Exchange a token for a cookie. Returns the path of the page that the cookie is for. */
export async function signIn(token) {
  const { page } = await api("POST", "sign-in", { token, base: BASE });
  return page;
}

export async function signOut() {
  await api("POST", "sign-out", { base: BASE }).catch(() => {});
  location.replace(BASE);
}

// The token may be a link: then it is in it.
function tokenOf(text) {
  const trimmed = text.trim();
  return /[?#&]token=([^&\s]+)/.exec(trimmed)?.[1] || trimmed;
}

/** The view. `reason` says why one has to sign in; "" at first. */
export function signInView(reason = "", isLink = BASE.includes("/link/")) {
  const state = stateOf(reason, isLink);
  const input = h("input.mono", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "token-note" });
  const error = h("p.bad", { role: "alert" });
  const submit = h("button.btn.main", { type: "submit" }, T.signIn);
  const form = h(
    "form",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        submit.disabled = true;
        try {
          location.replace(await signIn(tokenOf(input.value)));
          location.reload();
        } catch (failure) {
          error.textContent = visible(failure.message);
          submit.disabled = false;
        }
      },
    },
    h("label.field", { for: "token" }, h("span", null, T.tokenOrLink), input),
    h("p.dim", { id: "token-note" }, T.tokenOwn, h("code", null, T.tokenCommand), T.tokenNote),
    error,
    submit,
  );
  return h(
    "main.center",
    { id: "main" },
    h("div.sheet-box", { "data-state": state.name }, h("p.brand", null, icon("mark"), "Dragoman"), h("h1", null, state.title), state.text ? h("p", null, state.text) : null, reason && state.name !== "sign-in" ? h("p.dim", null, visible(reason)) : null, form),
  );
}

function stateOf(reason, isLink) {
  if (/revoked/.test(reason)) return { name: "revoked", ...(isLink ? T.linkRevoked : T.tokenRevoked) };
  if (/expired/.test(reason)) return { name: "expired", ...(isLink ? T.linkExpired : T.tokenExpired) };
  if (isLink && /not a token|does not exist/.test(reason)) return { name: "unknown-link", ...T.linkUnknown };
  return { name: "sign-in", title: T.signInTitle, text: T.signInText };
}

/** What is shown while the host cannot be reached at the start. */
export function unreachableView(message, retry) {
  const box = h("div.sheet-box", { role: "alert" }, h("h1", null, T.unreachable), h("p", null, T.unreachableText), h("p.dim", null, visible(message)), h("button.btn.main", { type: "button", onclick: retry }, T.tryNow));
  return h("main.center", { id: "main" }, box);
}

