import { Page } from "../lib/page.js";
export class NewPage extends Page {}
