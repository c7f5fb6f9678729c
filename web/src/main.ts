import { mount } from "svelte";
import App from "./App.svelte";
import { bytesInPage, fileSource } from "./source/file";
import { serverSource } from "./source/server";
import { theme } from "./state/theme.svelte";
import "./styles/fonts.css";
import "./styles/tokens.css";
import "./styles/base.css";

theme.start();
const saved = bytesInPage();
mount(App, {
  target: document.getElementById("headscope")!,
  props: { source: saved ? fileSource(saved) : serverSource(), ownsAddress: true },
});
