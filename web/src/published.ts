// Start the page of a published site.
import { mount } from "svelte";
import App from "./App.svelte";
import AboutSite from "./source/published/AboutSite.svelte";
import { bytesOf, isOneFile } from "./source/files-of-page";
import type { PublishedSite } from "./source/published/files";
import { publishedSource } from "./source/published/source";
import { siteTransport } from "./source/published/stored-answers";
import { answerWith } from "./source/server";
import { noPython } from "./source/without-python";
import { firstAddress } from "./start/visit";
import { theme } from "./ui/theme.svelte";
import { speak, wanted } from "./words/words";
import "./styles/all";

theme.start();
if (location.hash.length < 2) history.replaceState(null, "", firstAddress());
document.documentElement.lang = await speak(wanted());
const site: PublishedSite = JSON.parse(new TextDecoder().decode(await bytesOf("site.json")));
answerWith(siteTransport(site));
noPython(site.command, !isOneFile());
mount(App, { target: document.getElementById("headscope")!, props: { source: publishedSource(site) } });
mount(AboutSite, { target: document.body, props: { site } });
