//! A call of a table function: its arguments, and what the host allows.

use std::path::PathBuf;
use std::sync::Arc;

use duckdb::vtab::{BindInfo, Value};

use crate::api::{Data, open};
use crate::error::{Error, Result};
use crate::extension::host::Host;

/// The data directory where nobody names one, as on the command line.
const DATA: &str = "ccl-data";

/// A call.
pub struct Call {
    /// The database that calls.
    pub host: Arc<Host>,
    /// Arguments by position; of a list its elements.
    pub arguments: Vec<Vec<String>>,
    /// Arguments by name.
    named: Vec<(&'static str, Vec<String>)>,
    /// The place where the caller's names go first, as its `search_path` says.
    pub search_path: String,
    /// Whether the host forbids files.
    barred: bool,
}

impl Call {
    /// The call that is being bound.
    pub fn new(bind: &BindInfo, names: &[&'static str], host: Arc<Host>) -> Self {
        let arguments = (0..bind.get_parameter_count()).map(|i| texts(&bind.get_parameter(i)));
        let named = names.iter().filter_map(|name| {
            let value = bind.get_named_parameter(name)?;
            Some((*name, texts(&value)))
        });
        let option = |name| bind.get_config_option(name).map(|value| value.to_string());
        Self {
            host,
            arguments: arguments.collect(),
            named: named.collect(),
            search_path: option("search_path").unwrap_or_default(),
            barred: option("enable_external_access").is_some_and(|value| value != "true"),
        }
    }

    /// The texts of an argument by name; none where it is not given.
    pub fn named(&self, name: &str) -> &[String] {
        self.named.iter().find(|(n, _)| *n == name).map_or(&[], |(_, texts)| texts)
    }

    /// The one text of an argument by name.
    pub fn one(&self, name: &str) -> Option<&str> {
        self.named(name).first().map(String::as_str)
    }

    /// The data directory of the call.
    ///
    /// # Errors
    /// `host` where the settings of the host keep files away: the program reads them by itself,
    /// and no lock of DuckDB would stop it.
    pub fn data(&self) -> Result<Data> {
        self.data_at(None)
    }

    /// The data directory of the call, which is `folder` where it names none.
    ///
    /// # Errors
    /// As [`Call::data`].
    pub fn data_at(&self, folder: Option<String>) -> Result<Data> {
        let forbidden = |message: &str| {
            Error::new("host", message)
                .hint("CALL ccl_open('DIR') first, and forbid files after it")
        };
        if self.barred {
            return Err(forbidden(
                "ccl_sql reads files, and enable_external_access is false in this database",
            ));
        }
        // `disabled_filesystems` cannot be read, but it can be felt.
        self.host.with(|connection| {
            let seen = connection.query_row("SELECT count(*) FROM glob('.')", [], |_| Ok(()));
            seen.map_err(|e| {
                let said = e.to_string().lines().next().unwrap_or_default().to_owned();
                forbidden("ccl_sql reads files, and this database may not").facts(said)
            })
        })?;
        let path = self.one("data").map(PathBuf::from).or_else(|| folder.map(PathBuf::from));
        let path = path.or_else(|| std::env::var_os("CCL_SQL_DATA").map(PathBuf::from));
        let data = open(path.unwrap_or_else(|| DATA.into()));
        Ok(data.with_token(self.one("token").unwrap_or_default()))
    }

    /// The words of the command line: those of `options`, `flag`s for each text of arguments.
    pub fn options(&self, flags: &[(&str, &str)]) -> Vec<String> {
        let mut out = self.named("options").to_vec();
        for (name, flag) in flags {
            // One word: a text that begins with a dash is no option.
            out.extend(self.named(name).iter().map(|text| format!("{flag}={text}")));
        }
        out
    }
}

/// A text, or the elements of a list; none for NULL.
fn texts(value: &Value) -> Vec<String> {
    match value.to_list() {
        Some(list) => list.iter().filter(|v| !v.is_null()).map(ToString::to_string).collect(),
        None if value.is_null() => Vec::new(),
        None => vec![value.to_string()],
    }
}
