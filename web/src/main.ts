// Start the page of the server.
import { mount } from "svelte";
import App from "./App.svelte";
import { serverSource } from "./source/server";
import { firstAddress } from "./start/visit";
import { theme } from "./ui/theme.svelte";
import { speak, wanted } from "./words/words";
import "./styles/all";

theme.start();
if (location.hash.length < 2) history.replaceState(null, "", firstAddress());
document.documentElement.lang = await speak(wanted());
mount(App, { target: document.getElementById("headscope")!, props: { source: serverSource() } });
