// Start the page of an exported file or of a notebook: the microscope, built as one script.
import { mount } from "svelte";
import SavedPage from "./SavedPage.svelte";
import { bytesInPage, fileSource } from "./source/exported-file";
import { requester, channel, notebookSource } from "./source/notebook";
import { theme } from "./ui/theme.svelte";
import "./styles/all";

theme.start();
const saved = bytesInPage();
const shown = document.getElementById("headscope-look")?.textContent ?? "";
const source = saved ? fileSource(saved) : notebookSource(shown, requester(channel()));
mount(SavedPage, { target: document.getElementById("headscope")!, props: { source, ownsAddress: !shown } });
