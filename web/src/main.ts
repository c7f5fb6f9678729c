import { mount } from "svelte";
import App from "./App.svelte";
import { serverSource } from "./source/server";
import { theme } from "./state/theme.svelte";
import "./styles/fonts.css";
import "./styles/tokens.css";
import "./styles/base.css";

theme.start();
mount(App, { target: document.getElementById("headscope")!, props: { source: serverSource(), ownsAddress: true } });
