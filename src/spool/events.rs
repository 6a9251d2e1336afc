//! Rows of the tables, by the names of their columns. Only this file knows the order of the
//! columns, and a test compares it with the schema.

use crate::spool::rows::Rows;

/// A column of integers.
pub type Int = Option<i64>;
/// A column of doubles.
pub type Double = Option<f64>;
/// A column of text.
pub type Text<'a> = Option<&'a str>;

/// A value of a column.
pub trait Value: Copy {
    /// Gives the next column of a row.
    fn push(self, rows: &mut Rows);
}

impl Value for i64 {
    fn push(self, rows: &mut Rows) {
        rows.int(Some(self));
    }
}

impl Value for Int {
    fn push(self, rows: &mut Rows) {
        rows.int(self);
    }
}

impl Value for Double {
    fn push(self, rows: &mut Rows) {
        rows.double(self);
    }
}

impl Value for &str {
    fn push(self, rows: &mut Rows) {
        rows.text(Some(self));
    }
}

impl Value for Text<'_> {
    fn push(self, rows: &mut Rows) {
        rows.text(self);
    }
}

/// Structs with a field for each column, in the order of the columns.
macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident $(<$life:lifetime>)? { $($column:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $name$(<$life>)? {
            $(pub $column: $ty,)*
        }

        impl$(<$life>)? $name$(<$life>)? {
            /// Names of the columns.
            #[cfg(test)]
            pub(crate) const COLUMNS: &'static [&'static str] = &[$(stringify!($column)),*];

            /// Adds the row.
            #[inline]
            pub fn push(&self, rows: &mut $crate::spool::rows::Rows) {
                $($crate::spool::events::Value::push(self.$column, rows);)*
                rows.end_row();
            }
        }
    )*};
}
pub(crate) use rows;

rows! {
    /// A row of `host_events`.
    HostEvent<'a> {
        source: &'a str,
        event_id: i64,
        class: &'a str,
        category: Text<'a>,
        name: Text<'a>,
        ts_ns: Int,
        dur_ns: Int,
        pid: Int,
        tid: Int,
        device: Int,
        stream: Int,
        correlation: Int,
        external_id: Int,
        args: Text<'a>,
    }

    /// A row of `device_events`.
    DeviceEvent<'a> {
        event_id: i64,
        class: &'a str,
        category: Text<'a>,
        name: Text<'a>,
        ts_ns: i64,
        dur_ns: Int,
        ts_ps: Int,
        dur_ps: Int,
        device: Int,
        stream: Int,
        context: Int,
        correlation: Int,
        external_id: Int,
        bytes: Int,
        flops: Int,
        bytes_accessed: Int,
        hlo_category: Text<'a>,
        hlo_module: Text<'a>,
        hlo_op: Text<'a>,
        grid_x: Int,
        grid_y: Int,
        grid_z: Int,
        block_x: Int,
        block_y: Int,
        block_z: Int,
        registers: Int,
        shared_memory: Int,
        blocks_per_sm: Double,
        warps_per_sm: Double,
        occupancy_pct: Double,
        args: Text<'a>,
    }

    /// A row of `flows`.
    Flow<'a> {
        kind: Text<'a>,
        flow_id: Int,
        phase: &'a str,
        ts_ns: i64,
        pid: Int,
        tid: Int,
        name: Text<'a>,
    }

    /// A row of `counters`.
    Counter<'a> {
        ts_ns: i64,
        name: &'a str,
        device: Int,
        value: Double,
        unit: Text<'a>,
    }

    /// A row of `metadata`.
    Metadata<'a> {
        key: &'a str,
        value: &'a str,
    }

    /// A row of `launches`.
    LaunchRow {
        event_id: i64,
        op_event_id: Int,
        runtime_event_id: Int,
        launch_delay_ns: Int,
        launch_ts_ns: Int,
        record_event_id: Int,
        annotation_event_id: Int,
        comm_op_event_id: Int,
        pid: Int,
        tid: Int,
        range_event_id: Int,
    }

    /// A row of `comm_args`.
    CommArgs<'a> {
        event_id: i64,
        collective_name: Text<'a>,
        dtype: Text<'a>,
        in_elems: Int,
        out_elems: Int,
        group_size: Int,
        pg_name: Text<'a>,
        pg_desc: Text<'a>,
        pg_ranks: Text<'a>,
        seq: Int,
        src_rank: Int,
        dst_rank: Int,
        in_split: Text<'a>,
        out_split: Text<'a>,
        rank_start: Int,
        rank_stride: Int,
        in_bytes: Int,
        out_bytes: Int,
        coll_source: Text<'a>,
        stall_ns: Int,
        group_rank: Int,
    }

    /// A row of `step_ranges`.
    StepRow<'a> {
        event_id: i64,
        step: i64,
        ts_ns: i64,
        dur_ns: Int,
        marker: &'a str,
    }

    /// A row of `host_ranges`.
    HostRangeRow<'a> {
        event_id: i64,
        kind: &'a str,
        parent_event_id: Int,
        pid: Int,
        tid: Int,
        ts_ns: i64,
        dur_ns: i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::tables::{DEVICE, TABLES, rows_of};

    /// Names of the columns of a table, and how a row without values is pushed: a column of another
    /// type is refused.
    type ByName = (&'static [&'static str], fn(&mut Rows));

    const TABLES_BY_NAME: [ByName; TABLES.len()] = [
        (HostEvent::COLUMNS, |rows| HostEvent::default().push(rows)),
        (DeviceEvent::COLUMNS, |rows| DeviceEvent::default().push(rows)),
        (Flow::COLUMNS, |rows| Flow::default().push(rows)),
        (Counter::COLUMNS, |rows| Counter::default().push(rows)),
        (Metadata::COLUMNS, |rows| Metadata::default().push(rows)),
        (LaunchRow::COLUMNS, |rows| LaunchRow::default().push(rows)),
        (CommArgs::COLUMNS, |rows| CommArgs::default().push(rows)),
        (StepRow::COLUMNS, |rows| StepRow::default().push(rows)),
        (HostRangeRow::COLUMNS, |rows| HostRangeRow::default().push(rows)),
    ];

    #[test]
    fn columns_are_those_of_the_schema_in_its_order() {
        for (place, (columns, push)) in TABLES_BY_NAME.into_iter().enumerate() {
            let mut rows = rows_of(place);
            let schema = rows.schema().clone();
            let expected: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            assert_eq!(columns, expected, "{}", TABLES[place].0);
            push(&mut rows);
            assert_eq!(rows.len(), 1);
        }
    }

    #[test]
    fn a_row_gives_each_column_its_value() {
        let mut rows = rows_of(DEVICE);
        let event =
            DeviceEvent { event_id: 1, class: "copy", registers: Some(7), ..Default::default() };
        event.push(&mut rows);
        let batch = rows.take().expect("the row is whole");
        let text = |name: &str| {
            let column = batch.column_by_name(name).expect("the column");
            arrow::util::display::array_value_to_string(column, 0).expect("it can be shown")
        };
        assert_eq!(
            (text("event_id"), text("class"), text("registers")),
            ("1".into(), "copy".into(), "7".into())
        );
        assert_eq!((text("shared_memory"), text("args")), (String::new(), String::new()));
    }
}
