//! Reports, comparisons and the leaderboard, as text, pages and workbooks; and the pages of the
//! docs.

mod board;
mod compare;
mod html;
mod readme;
mod report;
