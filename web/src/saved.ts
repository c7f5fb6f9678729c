// Start the page of an exported file or of a notebook: the microscope, built as one script.
import { mount } from "svelte";
import SavedPage from "./SavedPage.svelte";
import { bytesInPage, fileSource } from "./source/exported-file";
import { requester, channel, notebookSource } from "./source/notebook";
import { headFromChat, keepHeight } from "./source/chat";
import { theme } from "./ui/theme.svelte";
import { allWords, speak, wanted } from "./words/words";
import "./styles/all";

theme.start();
document.documentElement.lang = await speak(wanted());
await allWords();
const saved = bytesInPage();
const chat = document.getElementById("headscope-chat") ? await headFromChat() : null;
const shown = document.getElementById("headscope-look")?.textContent ?? "";
const bytes = chat?.bytes ?? saved;
const source = bytes ? fileSource(bytes) : notebookSource(shown, requester(channel()));
mount(SavedPage, {
  target: document.getElementById("headscope")!,
  props: { source, at: chat?.at, ownsAddress: !shown && !chat },
});
if (chat) keepHeight();
