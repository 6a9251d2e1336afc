//! `man`: the manual page of the program, of a command, or all of them into a folder.

use crate::cli::args::{ManArgs, command};
use crate::cli::context::Context;
use crate::cli::output::{Files, Target, target};
use crate::error::{Error, Result, nearest};

/// Runs the command.
pub fn run(context: &Context, args: &ManArgs) -> Result<()> {
    let command = command();
    match (&args.command, target(context)?) {
        (None, Target::Folder(folder)) => {
            let mut files = Files::new(context);
            files.prepare(&Target::Folder(folder.clone()))?;
            files.add(&folder.join("ccl-sql.1"), &page(command.clone(), "ccl-sql")?)?;
            for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
                let name = format!("ccl-sql-{}", sub.get_name());
                files.add(&folder.join(format!("{name}.1")), &page(sub.clone(), &name)?)?;
            }
            files.commit()
        }
        (Some(_), Target::Folder(folder)) => {
            Err(Error::new("usage", "a folder is for the pages of all commands")
                .at(folder.display().to_string())
                .hint("leave the name of the command away, or name a file"))
        }
        (None, _) => context.printer.result(&page(command, "ccl-sql")?),
        (Some(name), _) => {
            let Some(sub) = command.find_subcommand(name) else {
                let names = command.get_subcommands().map(clap::Command::get_name);
                let error = Error::new("usage", format!("there is no command `{name}`"));
                return Err(match nearest(name, names) {
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None => error.hint("`ccl-sql --help` lists them"),
                });
            };
            let title = format!("ccl-sql-{}", sub.get_name());
            context.printer.result(&page(sub.clone(), &title)?)
        }
    }
}

/// The manual page of a command.
fn page(command: clap::Command, title: &str) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    // The commit is of no use to a reader of the manual.
    let command = command.display_name(title.to_owned()).long_version(None);
    clap_mangen::Man::new(command)
        .title(title)
        .render(&mut out)
        .map_err(|e| Error::new("io", e.to_string()))?;
    Ok(out)
}
