#!/usr/bin/env python3
"""Breaks every rule that is built in, one change at a time, and demands that tempoc --check-rules notices each.

usage: mutate.py TEMPOC RULES-FOLDER EQUIVALENT [--every=N] [--share=K/N] [--jobs=N] [RULE...]
A part, 'part NAME' as a rule's name, is broken like a rule, and one rule that uses it has to notice.
A mutant is the text of one rule with a wrong constant, two operands swapped, a term dropped, another op, a guard or an
attribute left out. It is killed when the check fails (exit code 1) and no mutant when the text is no rule any more (2).
What survives must be listed in EQUIVALENT, a line 'RULE: CHANGE: reason' each, because it means the same. A line may
hold patterns of fnmatch (brackets as they are); one without must survive, so that the list stays true.
--every=N runs each N-th mutant, beginning at the rule's number, so that every rule is broken; --share=K/N all mutants
of the K-th of N shares of the rules. The last line is 'N killed, N equivalent, N not found'.
"""
import concurrent.futures, fnmatch, os, re, sys, tempfile

from programs import run, write

WORDS = "or dim trailing side_capacity side_least side_limit".split()  # before "(", but no ops
COMMUTATIVE = set("Add Mul And Or Xor Equal BitwiseAnd BitwiseOr BitwiseXor Sum Max Min Mean add mul".split())
OTHER_OP = dict(Add="Sub", Sub="Add", Mul="Div", Div="Mul", Sin="Cos", Cos="Sin", Sinh="Cosh", Cosh="Sinh",
                Tanh="Sigmoid", Sigmoid="Tanh",
                Exp="Softplus", Erf="Tanh", Greater="Less", Less="Greater", Neg="Abs", Abs="Neg", Sqrt="Abs",
                Reciprocal="Neg", Sign="Neg",
                Softplus="Exp", ReduceMean="ReduceSum", ReduceMax="ReduceMin", Not="Identity", And="Or", Or="And",
                Softmax="LogSoftmax",
                Pow="Mul", Gelu="Mish", IsNaN="IsInf", Identity="Neg", recip="neg", neg="recip", ReduceLike="Mul",
                Sum="Neg", **{"ai.tempo.Swish": "Mish", "ai.tempo.GeluGrad": "ai.tempo.SwishGrad",
                              "ai.tempo.SwishGrad": "ai.tempo.GeluGrad", "ai.tempo.Dropout": "Identity"})
TOKEN = re.compile(r'\s+|#[^\n]*|"[^"]*"|[A-Za-z_][\w.]*|-?\d+\.?\d*(?:[eE][-+]?\d+)?|=>|.', re.S)


class Rule:
    def __init__(self, file, text):
        self.file, self.text = file, text
        self.tokens = [t for t in TOKEN.findall(text)]
        kind, name = re.match(r"(\w+) ([\w.]+)", text).groups()
        self.name = name if kind == "rule" else f"{kind} {name}"
        self.is_part = kind == "part"
        self.is_guards = self.is_part and re.search(r"\{( !?[a-z]\w*\([^=A-Z]+\),?)+ \}", " ".join(text.split()))


def read_rules(folder):
    rules = []
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".rules"):
            continue
        text = re.sub(r"^#.*\n", "", open(os.path.join(folder, file)).read(), flags=re.M)
        for part in re.split(r"^(?=(?:rule|gradient|function|part) )", text, flags=re.M):
            if part.startswith(("rule ", "gradient ", "part ")):
                rules.append(Rule(file, part.strip() + "\n"))
    return rules


def used(text, parts):
    """The names of the parts that a text uses, and that these use."""
    names = {f"part {name}" for name in re.findall(r"\b([a-z]\w*)\(", text.split("(", 1)[1])} & set(parts)
    return names.union(*(used(parts[name], parts) for name in names))


def files_of(rule, text, rules):
    """A mutant as files of one rule each, with the parts that it uses."""
    near = [r for r in rules if r.file == rule.file]
    parts = {r.name: r.text for r in near if r.is_part}
    users = [r.text for r in near if not r.is_part and rule.name in used(r.text, parts)] if rule.is_part else [text]
    if rule.is_part:
        parts[rule.name] = text
    for user in users:
        needed = used(user, parts)
        yield "".join(part for name, part in parts.items() if name in needed) + user


class Call:
    """A call in the tokens: name, span [start, end), spans of its operands, span of its attributes."""

    def __init__(self, tokens, at):
        self.start, self.name, self.attrs = at, tokens[at], None
        i = skip(tokens, at + 1)
        while tokens[i] in "|?*":
            i = skip(tokens, i + 1)
            if tokens[i - 1] == "|" or re.match(r"[A-Za-z]", tokens[i]):
                i = skip(tokens, i + 1)
        if tokens[i] == "<":
            end = tokens.index(">", i)
            self.attrs = (i, end + 1)
            i = skip(tokens, end + 1)
        self.operands, depth, begin = [], 0, i + 1
        for k in range(i, len(tokens)):
            depth += (tokens[k] in "([") - (tokens[k] in ")]")
            if (tokens[k] == "," and depth == 1) or depth == 0:
                self.operands.append((begin, k))
                begin = k + 1
            if depth == 0:
                self.end = k + 1
                break


def skip(tokens, i):
    while tokens[i].isspace():
        i += 1
    return i


def text_of(tokens, span):
    return "".join(tokens[span[0]:span[1]]).strip()


def blocks(rule):
    """Spans of the brace blocks: match and replace, the gradient's, or the part's, if it is none of guards."""
    found, depth = [], 0
    for i, t in enumerate([] if rule.is_guards else rule.tokens):
        if t == "{":
            depth, begin = depth + 1, i + 1
        elif t == "}":
            depth -= 1
            found.append((begin, i))
    return found


def calls(rule):
    for begin, end in blocks(rule):
        for i in range(begin, end):
            name = rule.tokens[i]
            if not re.match(r"[A-Za-z]", name) or name in WORDS:
                continue
            k = skip(rule.tokens, i + 1)
            while rule.tokens[k] in ("|", "?", "*"):
                k = skip(rule.tokens, k + 1)
                if re.match(r"[A-Za-z]", rule.tokens[k]):
                    k = skip(rule.tokens, k + 1)
            previous = next((t for t in reversed(rule.tokens[:i]) if not t.isspace()), "")
            if rule.tokens[k] in ("(", "<") and previous not in ("|",):
                yield Call(rule.tokens, i)


def replaced(tokens, span, text):
    return "".join(tokens[:span[0]]) + text + "".join(tokens[span[1]:])


def constants(rule):
    for begin, end in blocks(rule):
        for i in range(begin, end):
            t = rule.tokens[i]
            if re.fullmatch(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?", t):
                value = repr(round(float(t) * 1.02 + (0.02 if float(t) == 0 else 0),
                                   10)) if "." in t or "e" in t else str(int(t) + 1)
                before = "".join(rule.tokens[max(begin, i - 6):i]).split("\n")[-1].strip()
                yield f"constant {before} {t} -> {value}", replaced(rule.tokens, (i, i + 1), value)


def swaps(rule):
    for c in calls(rule):
        if c.name in COMMUTATIVE:
            continue
        for (a, b) in zip(c.operands, c.operands[1:]):
            x, y = text_of(rule.tokens, a), text_of(rule.tokens, b)
            if x != y:
                swapped = replaced(rule.tokens, (a[0], b[1]), f" {y}, {x}")
                yield f"swap {c.name}({x}, {y})", swapped


def drops(rule):
    for c in calls(rule):
        if len(c.operands) >= 2 and c.name in ("Add", "Sub", "Mul", "Div", "ReduceLike", "Pow"):
            for keep in range(2):
                kept = text_of(rule.tokens, c.operands[keep])
                lost = text_of(rule.tokens, c.operands[1 - keep])
                yield f"drop {lost} of {c.name}", replaced(rule.tokens, (c.start, c.end), kept)
        elif len(c.operands) == 1:
            kept = text_of(rule.tokens, c.operands[0])
            yield f"drop {c.name}", replaced(rule.tokens, (c.start, c.end), kept)
        if c.name.startswith("ai.tempo.DotProductAttention"):
            for o in c.operands[3:]:
                if text_of(rule.tokens, o):
                    yield f"drop operand {text_of(rule.tokens, o)} of {c.name}", replaced(rule.tokens, o, "")


def ops(rule):
    for c in calls(rule):
        if c.name in OTHER_OP:
            yield f"op {text_of(rule.tokens, (c.start, c.end))[:60]} -> {OTHER_OP[c.name]}", replaced(
                rule.tokens, (c.start, c.start + 1), OTHER_OP[c.name])
    for i, name in enumerate(rule.tokens):  # an op that a part gets
        if re.match(r"[A-Z]|ai\.", name) and name in OTHER_OP and rule.tokens[i + 1:i + 2] in ([","], [")"]):
            yield f"op {name} -> {OTHER_OP[name]}", replaced(rule.tokens, (i, i + 1), OTHER_OP[name])


def aliases(rule):
    """Results that are values which were there before: y = x."""
    for found in re.finditer(r"(\w+ = )([a-z]\w*)(?=\s*[}\n]|; \w+(?: =|\())", rule.text):
        negated = rule.text[:found.start(2)] + f"Neg({found.group(2)})" + rule.text[found.end(2):]
        yield f"op {found.group(0)} -> Neg", negated


def split_list(text):
    parts, depth, part = [], 0, ""
    for ch in text:
        depth += (ch in "([") - (ch in ")]")
        if ch == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += ch
    return parts + [part]


def guards(rule):
    found = re.search(r"(\{)\s+(.*?)\s*(?=\})" if rule.is_guards else
                      r"(?:^|(?<=\} ))(where)\s+(.*?)\s*(?=^replace|\{|\Z)", rule.text, flags=re.M | re.S)
    if not found:
        return
    parts = split_list(found.group(2))
    for i, part in enumerate(parts):
        rest = ",".join(parts[:i] + parts[i + 1:]).strip()
        left = f"{found.group(1)} {rest}\n" if rest or rule.is_guards else ""
        yield f"guard {part.strip()}", rule.text[:found.start()] + left + rule.text[found.end():]


def attributes(rule):
    lists = [(c.attrs, c.name, "<{}>") for c in calls(rule) if c.attrs]
    if rule.is_part and not re.search(r"[A-Z]\w*[?*]?[ (]", rule.text):  # attributes alone, or parameters
        lists += [(block, rule.name, " {} ") for block in blocks(rule)]
    for span, name, brackets in lists:
        parts = split_list(text_of(rule.tokens, span).strip("<>"))
        for i, part in enumerate(parts):
            rest = ",".join(parts[:i] + parts[i + 1:]).strip()
            less = replaced(rule.tokens, span, brackets.format(rest) if rest else "")
            yield f"attribute {part.strip()} of {name}", less
            factors = re.split(r"\s*([*/])\s*", part.strip())
            for k in range(1, len(factors), 2):
                less = "".join(factors[:k] + factors[k + 2:])
                other = "".join(factors[:k] + ["/" if factors[k] == "*" else "*"] + factors[k + 1:])
                for text, what in ((less, "without " + factors[k + 1]), (other, "inverse " + factors[k + 1])):
                    changed = ",".join(parts[:i] + [text] + parts[i + 1:])
                    yield f"attribute {part.strip()}, {what}", replaced(rule.tokens, span, brackets.format(changed))


def mutants(rule):
    seen, count = {rule.text}, {}
    for make in (constants, swaps, drops, ops, aliases, guards, attributes):
        for what, text in make(rule):
            what = " ".join(what.split())
            if text in seen:
                continue
            seen.add(text)
            count[what] = count.get(what, 0) + 1
            yield what + (f" [{count[what]}]" if count[what] > 1 else ""), text


def check(tempoc, folder, number, texts):
    path = os.path.join(folder, f"{number}.rules")
    for text in texts:
        write(path, text)
        done = run(tempoc, "--check-rules", f"--rules={path}", code=None)
        if done.code:
            break
    return done.code


def read_equivalent(path):
    listed = {}
    for line in open(path):
        line = line.strip()
        if line and not line.startswith("#"):
            rule, change, reason = line.split(": ", 2)
            listed[f"{rule}: {change}"] = reason
    return listed


def find(equivalent, key):
    """The line that lets a mutant survive, or None."""
    return next((line for line in equivalent if fnmatch.fnmatchcase(key, line.replace("[", "[[]"))), None)


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    tempoc, folder, listed, *only = [a for a in sys.argv[1:] if not a.startswith("--")]
    every = next((int(o[8:]) for o in options if o.startswith("--every=")), 1)
    jobs = next((int(o[7:]) for o in options if o.startswith("--jobs=")), os.cpu_count())
    share, shares = next((map(int, o[8:].split("/")) for o in options if o.startswith("--share=")), (1, 1))
    equivalent = read_equivalent(listed)
    work, known = [], set()
    rules = read_rules(folder)
    mine = {rule.name for index, rule in enumerate(rules)
            if (rule.name in only if only else index % shares == share - 1)}
    for index, rule in enumerate(rules):
        changes = list(mutants(rule))
        for number, (what, text) in enumerate(changes):
            key = f"{rule.name}: {what}"
            known.add(key)
            if rule.name in mine and number % every == index % min(every, len(changes)):
                work.append((key, list(files_of(rule, text, rules))))
    killed = invalid = same = failed = 0
    noticed = {rule.name for rule in rules if rule.is_part}
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda job: check(tempoc, temporary, job[0], job[1][1]), enumerate(work))
        for (key, _), code in zip(work, results):
            if code == 2:
                invalid += 1
                continue
            if code == 1:
                killed += 1
                noticed.add(key.split(": ")[0])
                if key in equivalent and "*" not in key:
                    print(f"FAIL listed as equivalent, but found: {key}", flush=True)
                    failed += 1
            elif code == 0 and find(equivalent, key):
                same += 1
            else:
                print(f"FAIL {'not found' if code == 0 else f'exit code {code}'}: {key}", flush=True)
                failed += 1
    for line in equivalent:
        if not any(find([line], key) for key in known):
            print(f"FAIL {listed} lists what is no mutant: {line}")
            failed += 1
    if every == 1:
        for key in sorted(mine - noticed):
            print(f"FAIL no mutant of {key} was killed")
            failed += 1
    print(f"{len(work)} mutants of {len({key.split(': ')[0] for key, _ in work})} rules, {invalid} of them no rules; "
          f"score {killed / max(1, len(work) - invalid - same):.3f}")
    print(f"{killed} killed, {same} equivalent, {failed} not found")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
