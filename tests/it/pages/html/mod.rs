//! The HTML pages in a real browser.

mod documents;
mod job;
mod page;
mod timeline;
