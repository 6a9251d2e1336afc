//! Reports, comparisons and the leaderboard, as text, pages and workbooks.

mod board;
mod compare;
mod html;
mod report;
