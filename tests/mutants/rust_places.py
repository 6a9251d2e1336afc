"""What can be changed in a Rust file, and the file with all of it, each change behind a switch.

A change is an `if` around an expression, a statement or a body: `crate::mutant::on(7)` says whether
the change of number 7 is wanted. The branch of a change is the text as it was, without the changes
within: one is on at a time, so the file does not double with every nesting.
"""

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field

import tree_sitter_rust
from tree_sitter import Language, Parser

PARSER = Parser(Language(tree_sitter_rust.language()))

COMPARISONS = {"<": "<=", ">": ">=", "<=": "<", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|",
              "|": "&", "^": "&", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&=",
              "&=": "|=", "<<=": ">>=", ">>=": "<<=", "%=": "/=", "^=": "|="}
LOGIC = {"&&": "||", "||": "&&"}
#: Nodes without anything to change: no code, or what the compiler works out.
SKIPPED = {"attribute_item", "inner_attribute_item", "const_item", "static_item", "const_block",
           "macro_invocation", "macro_definition", "parameters", "closure_parameters",
           "type_arguments", "type_parameters", "where_clause", "array_type", "use_declaration",
           "struct_item", "enum_item", "type_item", "line_comment", "block_comment"}
#: What a function may give in place of its answer, by its type.
GIVEN = [
    (r"bool", ["true", "false"]), (r"[iu](8|16|32|64|128|size)", ["0", "1"]),
    (r"f(32|64)", ["0.0"]), (r"String", ["String::new()"]), (r"&('\w+ )?str", ['""']),
    (r"Option<.*>", ["None"]),
    (r"Vec<.*>", ["Vec::new()"]), (r"\(\)", ["()"]),
    (r"(\w+::)*(BTree|Hash)(Map|Set)<.*>", ["Default::default()"]),
]
#: Statements that change no answer: room that is asked for early.
IDLE = re.compile(r"\.(reserve|reserve_exact|shrink_to_fit)\(|^(std::mem::)?drop\(|\bpin!"
                  r"|^(debug_)?assert|^unreachable")


@dataclass
class Mutant:
    """A change of a file."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    id: str = ""
    number: int = 0


@dataclass
class Place:
    """What is put around a piece of a file, from byte to byte."""

    start: int
    end: int
    mutants: list = field(default_factory=list)
    #: An expression has its changes in branches; the others are put in as they are.
    is_expression: bool = True
    depth: int = 0


def one_line(text):
    return " ".join(text.split())


class File:
    """A file of Rust, and the places in it."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.places, self.counts, self.function = [], Counter(), ""
        self.walk(PARSER.parse(text).root_node, 0)

    def of(self, node):
        return self.text[node.start_byte:node.end_byte].decode()

    def mutant(self, node, kind, before, after):
        """A change, with a number that outlives changes of other places."""
        said = "\0".join([self.name, self.function, kind, before, after])
        self.counts[said] += 1
        said += f"\0{self.counts[said]}"
        number = hashlib.sha256(said.encode()).hexdigest()[:10]
        return Mutant(self.name, node.start_point[0] + 1, kind, before, after, number)

    def add(self, node, depth, changes, is_expression=True, span=None):
        start, end = span or (node.start_byte, node.end_byte)
        before = self.text[start:end].decode()
        mutants = [self.mutant(node, kind, before, after) for kind, after in changes]
        if mutants:
            self.places.append(Place(start, end, mutants, is_expression, depth))

    def walk(self, node, depth):
        """Adds the places of a node and of what lies below."""
        kind = node.type
        if kind == "match_pattern":
            condition = node.child_by_field_name("condition")
            if condition:
                self.condition(condition, depth)
                self.walk(condition, depth + 1)
            return
        if kind == "macro_invocation" and self.function and self.of(node).startswith("matches!"):
            self.add(node, depth, [("not", f"!{self.of(node)}")])
        if kind in SKIPPED or kind.endswith("_pattern") or self.is_of_tests(node):
            return
        outer = self.function
        if kind == "function_item":
            if re.search(r"\bconst\b|\bextern\b", self.head(node)):
                return
            self.function += "::" + self.of(node.child_by_field_name("name"))
            self.body(node, depth)
        elif self.function:
            self.changes(node, kind, depth)
        for child in self.children(node):
            self.walk(child, depth + 1)
        self.function = outer

    @staticmethod
    def children(node):
        """Children that are code and run when the program does."""
        skipped = {"pattern", "type", "return_type", "length", "trait", "type_arguments"}
        if node.type == "field_expression":
            skipped = skipped | {"field"}
        if node.type == "match_arm":
            skipped = skipped - {"pattern"}
        for n, child in enumerate(node.children):
            if node.field_name_for_child(n) not in skipped:
                yield child

    def head(self, function):
        """The words before `fn`."""
        text = self.text[function.start_byte:function.child_by_field_name("name").start_byte]
        return text.decode()

    def is_of_tests(self, node):
        """Whether an attribute before it says that it is for tests, or for another build."""
        if node.type not in ("mod_item", "function_item", "impl_item", "expression_statement",
                             "let_declaration", "block"):
            return False
        before = node.prev_sibling
        while before is not None and before.type in ("attribute_item", "line_comment"):
            said = self.of(before)
            if before.type == "attribute_item" and re.search(r"\btest\b|extension", said):
                return True
            before = before.prev_sibling
        return False

    def changes(self, node, kind, depth):
        text = self.of(node)
        if kind == "binary_expression":
            self.binary(node, depth)
        elif kind == "compound_assignment_expr":
            operator = node.child_by_field_name("operator")
            if operator.type in ARITHMETIC:
                self.add(node, depth, [("arithmetic", self.with_operator(node, ARITHMETIC))])
        elif kind == "unary_expression" and node.children[0].type in "!-":
            self.add(node, depth, [("not", self.of(node.children[1]))])
        elif kind in ("if_expression", "while_expression"):
            self.condition(node.child_by_field_name("condition"), depth, kind[0] == "i")
        elif kind == "integer_literal":
            found = re.fullmatch(r"(0[xob][\da-fA-F_]+?|[\d_]+)([iu](?:\d+|size))?", text)
            if found:
                new = str(int(found[1].replace("_", ""), 0) + 1) + (found[2] or "")
                self.add(node, depth, [("number", new)])
        elif kind == "float_literal":
            self.add(node, depth, [("number", f"{text} + 1.0")])
        elif kind == "call_expression" and re.match(r"Some\(", text):
            self.add(node, depth, [("some", "None")])
        elif kind == "expression_statement" and text.endswith(";"):
            of = node.children[0].type
            does = of in ("call_expression", "try_expression", "assignment_expression",
                          "compound_assignment_expr", "await_expression", "macro_invocation")
            if does and not IDLE.search(text):
                self.add(node, depth, [("statement", "")], False)
        elif kind == "match_block":
            self.arms(node, depth)

    def with_operator(self, node, others):
        operator = node.child_by_field_name("operator")
        left = self.text[node.start_byte:operator.start_byte].decode()
        right = self.text[operator.end_byte:node.end_byte].decode()
        return left + others[operator.type] + right

    def binary(self, node, depth):
        operator = node.child_by_field_name("operator").type
        if any(c.type in ("let_condition", "let_chain") for c in node.children):
            return
        for kind, others in (("comparison", COMPARISONS), ("arithmetic", ARITHMETIC),
                             ("logic", LOGIC)):
            if operator in others:
                self.add(node, depth, [(kind, self.with_operator(node, others))])

    def condition(self, node, depth, may_be_true=True):
        """Always and never; of a chain with `let`, the parts without."""
        if node.type == "let_chain":
            for child in node.named_children:
                self.condition(child, depth, may_be_true)
        elif node.type != "let_condition":
            always = [("condition", "true")] if may_be_true else []
            self.add(node, depth, [*always, ("condition", "false")])

    def arms(self, node, depth):
        """Arms that are passed over, where a later one takes everything."""
        arms = [child for child in node.named_children if child.type == "match_arm"]
        last = self.of(arms[-1].child_by_field_name("pattern")) if arms else "true"
        if not re.fullmatch(r"_|(?!true|false)[a-z]\w*", last):
            return
        for arm in arms[:-1]:
            pattern = arm.child_by_field_name("pattern")
            if pattern.child_by_field_name("condition") is None:
                self.add(pattern, depth, [("arm", "")], False, (pattern.end_byte, pattern.end_byte))
                self.places[-1].mutants[0].before = self.of(arm)

    def body(self, node, depth):
        """A function that gives an answer at once."""
        body = node.child_by_field_name("body")
        if body is None or not body.named_children:
            return
        type = node.child_by_field_name("return_type")
        given = self.given(one_line(self.of(type)) if type else "()")
        at = body.start_byte + 1
        was = one_line(self.of(body).strip("{}"))
        changes = [("body", f"return {new};") for new in given if was not in (new, "")]
        if changes:
            self.add(node, depth, changes, False, (at, at))
            for mutant in self.places[-1].mutants:
                mutant.before = f"{self.of(node.child_by_field_name('name'))}()"

    def given(self, type):
        found = re.fullmatch(r"(?:\w+::)*Result<(.*)>", type)
        if found:
            inner = re.sub(r", *\w*(Error|Failure|Fault)\w*$", "", found[1])
            return [f"Ok({new})" for new in self.given(inner)]
        return next((new for pattern, new in GIVEN if re.fullmatch(pattern, type)), [])

    def written(self):
        """The file with all its changes, and where each lies in it: (start, end, mutants)."""
        inserted = []
        for n, place in enumerate(self.places):
            if not place.mutants:
                continue
            before, after = [], ""
            for mutant in place.mutants:
                on = f"crate::mutant::on({mutant.number})"
                if place.is_expression:
                    is_first = mutant is place.mutants[0]
                    start = "(if " if is_first else " else if "
                    before.append((f"{start}{on} {{ {mutant.after} }}", mutant))
                elif mutant.kind == "statement":
                    before.append((f"if !{on} {{ ", mutant))
                    after = " }"
                elif mutant.kind == "arm":
                    before.append((f" if !{on}", mutant))
                else:
                    before.append((f" if {on} {{ {mutant.after} }}", mutant))
            if place.is_expression:
                before.append((" else { ", None))
                after = " })"
            inserted.append((place.start, 1, place.depth, n, before))
            inserted.append((place.end, 0, -place.depth, -n, after))
        # What ends at a byte goes before what begins there, and the inner before the outer.
        empty = {n for n, p in enumerate(self.places) if p.start == p.end}
        inserted = [i for i in inserted if not (i[1] == 0 and -i[3] in empty)]
        inserted.sort(key=lambda i: i[:4])
        out, spans, opened, at = bytearray(), [], {}, 0
        for offset, opens, _, n, text in inserted:
            out += self.text[at:offset]
            at = offset
            if opens:
                start = len(out)
                for piece, mutant in text:
                    from_ = len(out)
                    out += piece.encode()
                    if mutant:
                        spans.append((from_, len(out), [mutant]))
                opened[n] = start
                if n in empty:
                    spans.append((start, len(out), self.places[n].mutants))
            else:
                out += text.encode()
                spans.append((opened[-n], len(out), self.places[-n].mutants))
        out += self.text[at:]
        return bytes(out), spans

    def drop(self, ids):
        for place in self.places:
            place.mutants = [m for m in place.mutants if m.id not in ids]

    def mutants(self):
        return [mutant for place in self.places for mutant in place.mutants]
