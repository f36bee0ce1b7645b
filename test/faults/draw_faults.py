"""draw_faults.py: places in C files where a fault can be planted, and what each place would read with it.

A place is a line inside a function that holds a whole statement, or the whole head of an if, while or for. Its faults
are of the KINDS below. Each has two texts: `plain`, the line as a programmer would have got it wrong, and `planted`,
which is right or wrong as TEMPO_FAULT(%d) says (planted.h). Nothing here is a parser of C: what comes out wrong, the
compiler refuses, and plant.py draws another one.
"""
import collections
import re

KINDS = ("constant", "operand", "bound", "free", "condition", "return")
Fault = collections.namedtuple("Fault", "kind file line was plain planted")

TOKEN = re.compile(r'\s+|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\d(?:[eEpP][+-]|[\w.])*|\.\d\w*|[A-Za-z_]\w*|<<=|>>=|'
                   r'->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.', re.S)
OTHER_OPERATOR = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "+=", "|": "&",
                  "&": "|", "<<": ">>", ">>": "<<", "++": "--", "--": "++"}
OTHER_BOUND = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OTHER_CONDITION = {"==": "!=", "!=": "==", "&&": "||", "||": "&&"}
KEYWORDS = set("if else for while do switch case default goto break continue return sizeof typedef static struct enum "
               "union const unsigned signed int char short long float double void bool true false".split())
FREES = re.compile(r"(?:\(void\))?(?:\w*_)?(?:free|fclose|munmap|close|closedir|release|destroy|let_go|clear|unmap|"
                   r"delete|discard|unlock|drop|forget|stop)(?:_[a-z_]+)?\(")
# What deletes files or ends processes stays as it is: a fault there reaches beyond the test that finds it. setjmp and
# va_start may stand in few places.
LEFT_ALONE = re.compile(r"unlink|rmdir|rename|remove\(|\bkill\(|truncate|TC_RECOVERS|setjmp|static_assert|va_start|"
                        r"va_arg")
DECLARATION = re.compile(r"((?:(?:const|unsigned|struct|enum|volatile) )*[A-Za-z_]\w*(?: const)? \**)"
                         r"([A-Za-z_]\w*(?: = .*|, .*))")


def tokens_of(text):
    return TOKEN.findall(text)


def balanced(text):
    depth = 0
    for token in tokens_of(text):
        depth += (token in "([{") - (token in ")]}")
        if depth < 0:
            return False
    return depth == 0


def split(text, separators):
    """Parts between separators that no bracket holds, and the separators."""
    parts, found, depth = [""], [], 0
    for token in tokens_of(text):
        depth += (token in "([{") - (token in ")]}")
        if depth == 0 and token in separators:
            found.append(token)
            parts.append("")
        else:
            parts[-1] += token
    return parts, found


def other_numbers(token):
    """A constant one more and one less; 0 and 1 for each other. Exponents and hexadecimal ones are left alone."""
    whole = re.fullmatch(r"(0|[1-9]\d*)([uUlL]*)", token)
    if whole:
        value = int(whole.group(1))
        return [f"{v}{whole.group(2)}" for v in ((1,) if value == 0 else (value - 1, value + 1))]
    part = re.fullmatch(r"(\d+\.\d*)([fF]?)", token)
    if part:
        value = float(part.group(1))
        return [f"{float(v)}{part.group(2)}" for v in ((1,) if value == 0 else (value - 1, value + 1))]
    return []


def next_to(tokens, at, step):
    at += step
    while 0 <= at < len(tokens) and tokens[at].isspace():
        at += step
    return tokens[at] if 0 <= at < len(tokens) else ""


def is_binary(tokens, at):
    before, after = next_to(tokens, at, -1), next_to(tokens, at, 1)
    return bool(re.match(r"[\w.)\]]", before)) and before not in KEYWORDS and after not in ("", ")", ",", ";")


def is_variable(tokens, at):
    return bool(re.match(r"[a-z_]\w*$", tokens[at])) and tokens[at] not in KEYWORDS and \
        not tokens[at].endswith("_t") and next_to(tokens, at, 1) not in ("(", "") and \
        next_to(tokens, at, -1) not in (".", "->")


def swapped_arguments(tokens):
    """The text with two neighbours among the arguments of a call in each other's place, for all calls."""
    for at in range(len(tokens) - 1):
        if tokens[at + 1] != "(" or not re.match(r"[A-Za-z_]", tokens[at]) or tokens[at] in KEYWORDS:
            continue
        depth, begin, spans = 0, at + 2, []
        for i in range(at + 1, len(tokens)):
            depth += (tokens[i] in "([{") - (tokens[i] in ")]}")
            if depth == 0 or (depth == 1 and tokens[i] == ","):
                spans.append((begin, i))
                begin = i + 1
            if depth == 0:
                break
        for (a, b), (c, d) in zip(spans, spans[1:]):
            first, second = "".join(tokens[a:b]).strip(), "".join(tokens[c:d]).strip()
            if first != second:
                lead = " " if tokens[a].isspace() else ""
                yield "".join(tokens[:a]) + f"{lead}{second}, {first}" + "".join(tokens[d:])


def changes(text, names):
    """(kind, text with the fault) for each fault of an expression or a statement. names: variables around it."""
    tokens = tokens_of(text)
    variables = [t for i, t in enumerate(tokens) if is_variable(tokens, i)]
    others = list(dict.fromkeys(variables + names))
    for i, token in enumerate(tokens):
        def changed(new, i=i):
            return "".join(tokens[:i]) + new + "".join(tokens[i + 1:])
        for number in other_numbers(token):
            yield "constant", changed(number)
        if token in ("true", "false"):
            yield "constant", changed("false" if token == "true" else "true")
        if token in OTHER_OPERATOR and (is_binary(tokens, i) or token in ("++", "--")):
            yield "operand", changed(OTHER_OPERATOR[token])
        if token in ("-", "/", "%") and is_binary(tokens, i) and 2 <= i < len(tokens) - 2 and \
                is_variable(tokens, i - 2) and is_variable(tokens, i + 2):
            yield "operand", "".join(tokens[:i - 2]) + tokens[i + 2] + f" {token} " + tokens[i - 2] + \
                "".join(tokens[i + 3:])
        if token in OTHER_BOUND:
            yield "bound", changed(OTHER_BOUND[token])
        if token in OTHER_CONDITION:
            yield "condition", changed(OTHER_CONDITION[token])
        if token == "!":
            yield "condition", changed("")
        if is_variable(tokens, i):
            for other in others:
                if other != token:
                    yield "operand", changed(other)
    for swapped in swapped_arguments(tokens):
        yield "operand", swapped


def condition_changes(text, names):
    yield from changes(text, names)
    simple = re.fullmatch(r"[\w.>\[\]-]+(\([^()]*\))?", text)
    yield "condition", f"!{text}" if simple else f"!({text})"
    yield "condition", "true"
    for operator in ("&&", "||"):
        parts, _ = split(text, (operator,))
        for i in range(len(parts) if len(parts) > 1 else 0):
            rest = [part.strip() for part in parts[:i] + parts[i + 1:]]
            yield "condition", f" {operator} ".join(rest)


def heads_of_for(text, names):
    """(kind, plain, planted) of the three parts of a for. A bound moves by a sum, which loops of OpenMP may have."""
    parts, _ = split(text, (";",))
    if len(parts) != 3:
        return
    first, test, step = parts
    begin = re.fullmatch(r"(.* = )([\w.>-]+)", first)
    if begin and "," not in first:
        later = "1" if begin.group(2) == "0" else f"{begin.group(2)} + 1"
        yield "bound", f"{begin.group(1)}{later};{test};{step}", \
            f"{begin.group(1)}TEMPO_FAULT(%d) ? {later} : {begin.group(2)};{test};{step}"
    compared = re.fullmatch(r"( \w+ )(<|<=)( [^&|?<>]+)", test)
    if compared:
        left, operator, right = compared.groups()
        by = right.strip() if re.fullmatch(r"[\w.>-]+", right.strip()) else f"({right.strip()})"
        more = f"{left}<= {by}" if operator == "<" else f"{left}<= {by} + 1"
        less = f"{left}{operator} {by} - 1"
        yield "bound", f"{first};{more};{step}", f"{first};{left}{operator} {by} + TEMPO_FAULT(%d);{step}"
        yield "bound", f"{first};{less};{step}", f"{first};{left}{operator} {by} - TEMPO_FAULT(%d);{step}"
    elif test.strip():
        for kind, changed in changes(test.strip(), names):
            yield kind, f"{first}; {changed};{step}", \
                f"{first}; TEMPO_FAULT(%d) ? ({changed}) : ({test.strip()});{step}"


def faults_of_declaration(kept, rest, names):
    """(kind, plain, planted) where one of the declared variables begins with another value."""
    parts, _ = split(rest, (",",))
    for i, part in enumerate(parts):
        if " = " not in part or part.split(" = ", 1)[1].startswith("{"):
            continue
        name, value = part.split(" = ", 1)
        for kind, changed in changes(value, names):
            texts = [",".join(parts[:i] + [f"{name} = {v}"] + parts[i + 1:])
                     for v in (changed, f"TEMPO_FAULT(%d) ? ({changed}) : ({value})")]
            yield kind, f"{kept}{texts[0]};", f"{kept}{texts[1]};"


def faults_of_statement(text, names):
    """(kind, plain, planted) of a statement without its ';'."""
    word = re.match(r"\w*", text).group(0)
    if (word in KEYWORDS and word != "return") or text.startswith(("{", "}")) or not balanced(text):
        return
    if FREES.match(text) and text.endswith(")") and " = " not in text:
        yield "free", ";", f"if (!TEMPO_FAULT(%d)) {{ {text}; }}"
    for kind, changed in changes(text, names):
        yield kind, f"{changed};", f"{{ if (TEMPO_FAULT(%d)) {{ {changed}; }} else {{ {text}; }} }}"


def results(header):
    """What a function that returns early may return: statements."""
    words = re.sub(r"\b(static|inline|const|TK_\w+|TC_\w+\(.*?\)|[A-Z_]{4,})\b", "", header.split("(", 1)[0])
    kind = re.sub(r"\w+\s*$", "", words).strip() if "(" in header else ""
    if kind == "void":
        return ["return;"]
    if kind.endswith("*"):
        return ["return NULL;"]
    if kind == "tc_status":
        return ["return TC_OK;"]
    if kind == "bool":
        return ["return true;", "return false;"]
    return ["return 0;"]


def functions(lines):
    """Spans (header, first, end) of the bodies of functions, by line numbers from 0; one-line functions have first ==
    end, the number of their line."""
    header, at = "", 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("#") or line.startswith(("/*", " *")):
            while line.endswith("\\") and at + 1 < len(lines):
                at, line = at + 1, lines[at + 1]
            header = ""
        elif re.match(r"[A-Za-z_].*\) \{ .*; \}$", line):
            yield line, at, at
            header = ""
        elif header or re.match(r"[A-Za-z_]", line):
            header += line + "\n"
            if line.endswith(") {") and " = " not in header:
                first = at + 1
                while at < len(lines) and lines[at] != "}":
                    at += 1
                yield header, first, at
                header = ""
            elif line.endswith((";", "}", "{")):
                header = ""
        at += 1


def place_faults(file, lines, header, first, end):
    """All faults of one function."""
    names = [name for name in re.findall(r"(\w+)(?:\[\])?[,)]", header.split("(", 1)[-1]) if name not in KEYWORDS]
    if first == end:
        found = re.match(r"([A-Za-z_].*\) \{ )(.*);( \})$", lines[first])
        if found and not LEFT_ALONE.search(lines[first]) and ";" not in found.group(2):
            for kind, plain, planted in faults_of_statement(found.group(2), names):
                yield Fault(kind, file, first + 1, lines[first], found.group(1) + plain + found.group(3),
                            found.group(1) + planted + found.group(3))
        return
    macro = comment = False
    before = "{"  # the end of the last line that has code
    for at in range(first, end):
        line = lines[at]
        in_macro, macro = macro or line.startswith("#"), line.endswith("\\") and (macro or line.startswith("#"))
        in_comment = comment or re.match(r"\s*/\*", line)
        comment = bool(in_comment) and "*/" not in line
        if in_macro or in_comment or not line.strip():
            continue
        starts, before = before, re.sub(r"\s*/\*.*?\*/$", "", line)
        text = before.strip()
        if not re.search(r"([;{}:)]|\belse)$", starts) or LEFT_ALONE.search(line) or not text or '"' in text and \
                text.count('"') % 2:
            continue
        indent = before[:len(before) - len(before.lstrip())]
        if starts.endswith((";", "{", "}")) and not re.match(r"(return|else|case|default|\}|#)\b|\}", text):
            for early in results(header):
                yield Fault("return", file, at + 1, line, f"{indent}{early} {text}",
                            f"{indent}if (TEMPO_FAULT(%d)) {early} {text}")
        found = re.fullmatch(r"((?:\} )?(?:else )?(?:if|while) \()(.*)(\)(?: \{)?)", text)
        if found and balanced(found.group(2)):
            for kind, changed in condition_changes(found.group(2), names):
                yield Fault(kind, file, at + 1, line, indent + found.group(1) + changed + found.group(3),
                            f"{indent}{found.group(1)}TEMPO_FAULT(%d) ? ({changed}) : ({found.group(2)})"
                            f"{found.group(3)}")
            continue
        found = re.fullmatch(r"(for \()(.*)(\)(?: \{)?)", text)
        if found and balanced(found.group(2)):
            for kind, plain, planted in heads_of_for(found.group(2), names):
                yield Fault(kind, file, at + 1, line, indent + found.group(1) + plain + found.group(3),
                            indent + found.group(1) + planted + found.group(3))
            continue
        found = re.fullmatch(r"((?:case [^:]*|default): )?(.*);", text)
        if not found or ";" in found.group(2) or not balanced(found.group(2)):
            continue
        label, statement = found.group(1) or "", found.group(2)
        declared = DECLARATION.fullmatch(statement)
        if declared and declared.group(1).split()[0] not in ("return", "goto", "else"):
            ways = faults_of_declaration(declared.group(1), declared.group(2), names)
        else:
            ways = faults_of_statement(statement, names)
        for kind, plain, planted in ways:
            yield Fault(kind, file, at + 1, line, indent + label + plain, indent + label + planted)


def faults_of_file(file, text):
    lines = text.split("\n")
    for header, first, end in functions(lines):
        for fault in place_faults(file, lines, header, first, end):
            if " ".join(fault.plain.split()) != " ".join(fault.was.split()):
                yield fault
