// The styles that every page shares.
import "./fonts.css";
import "./tokens.css";
import "./base.css";
import "./pattern.css";
import "./by-hand.css";
