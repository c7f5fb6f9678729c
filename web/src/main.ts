// Start the page with its source of data: an exported file, a notebook or the server.
import { mount } from "svelte";
import App from "./App.svelte";
import { bytesInPage, fileSource } from "./source/exported-file";
import { requester, channel, notebookSource } from "./source/notebook";
import { serverSource } from "./source/server";
import { theme } from "./ui/theme.svelte";
import "./styles/fonts.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/pattern.css";
import "./styles/by-hand.css";

theme.start();
const saved = bytesInPage();
const shown = document.getElementById("headscope-look")?.textContent;
const source = saved ? fileSource(saved) : shown ? notebookSource(shown, requester(channel())) : serverSource();
mount(App, { target: document.getElementById("headscope")!, props: { source, ownsAddress: !shown } });
