"""Texts for cross_check.py, and seeds of the fuzz target: each shows another part of ONNX text, or is refused for
another reason."""

HEADER = '<ir_version: 10, opset_import: ["": 21, "my.ops": 1]>\n'

# Graphs that onnx.parser reads; each shows another part of the syntax.
GRAPHS = {
    "smallest": "g (float x) => (float y) { y = Neg (x) }",
    "comments": "g # name\n (float x) # in\n => (float y) {\n# a node\ny = Neg (x) }\n# the end",
    "no inputs": "g => (float y) { y = Constant <value_float = 1.0> () }",
    "types": 'g (float[N, 3, ?, "a b"] x, float[] u, seq(float[2]) s, optional(seq(int64)) o, map(string, float[2]) m,'
             " sparse_tensor(float[3,4]) p, opaque() q0, opaque(rng) q1, opaque(my.dom,rng) q2) => (float[0] y) { y = "
             "Neg (x) }",
    "element types": "g (" + ", ".join(f"{t}[1] v{i}" for i, t in enumerate(
        "float uint8 int8 uint16 int16 int32 int64 string bool float16 double uint32 uint64 complex64 complex128 "
        "bfloat16 "
        "float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4 int4 float4e2m1 float8e8m0 uint2 int2".split())) +
        ") => (float[1] v0) {}",
    "minus one": "g (float[-1] x) => (float y) { y = Neg (x) }",
    "names in quotes": '"my graph" (float[2] "x/in:0") => (float[2] "y \\"out\\" \\\\") '
                       '{ ["/a/b node"] "y \\"out\\" \\\\" = Neg ("x/in:0") }',
    "bytes in names": 'g (float "größe#1") => (float y) { y = Neg ("größe#1") }',
    "labels": "g (float x) => (float y) { [n1] a = Neg (x) [\"n/2\"] y = Neg (a) }",
    "absent operands": 'g (float x) => (float y) { a = my.ops.A ("", x) b = my.ops.A (,x) c = my.ops.A (x,) d = '
                       'my.ops.A (x, "") '
                       'e, "", f = my.ops.B () y = Add (a, f) }',
    "no results": "g (float x) => (float x) { = my.ops.A (x) }",
    "domains": "g (float x) => (float y) { a = my.ops.Neg (x) b = ai.onnx.Neg (a) y = my.ops.F:over (b) }",
    "single attributes": 'g (float x) => (float y) { y = my.ops.A <i = -3, f = 1.5, s = "a \\"b\\"\\n\\\\", g = 1e-3, '
                         'n = -0, '
                         "big = -9223372036854775808, b = 1., c = 2E5> (x) }",
    "attributes last": "g (float x) => (float y) { y = Softmax (x) <axis = -1> }",
    "kinds said": 'g (float x) => (float y) { y = my.ops.A <i: int = 3, f: float = 3, z: float = -0, s: string = "", '
                  "fs: floats = [1, 2.5], is: ints = [], ss: strings = [], gs: graphs = [], j: int = [1, 2]> (x) }",
    "lists": 'g (float x) => (float y) { y = my.ops.A <is = [1, -2], fs = [1.0, 2, 3e8], ss = ["a", "", "\\"" ]> (x) }',
    "special floats": "g (float x) => (float y) { y = my.ops.A <a = inf, b = -inf, c = nan, d = [inf, -inf, NaN], "
                      "e: float = Infinity, f: floats = [-infinity]> (x) }",
    "tensors": 'g (float x) => (float y) { y = my.ops.A <a = float[2,2] {1,2.5,-0,1e-45}, b = int64 {-7}, c = int64[0] '
               '{}, '
               'd = bool[3] {0,1,1}, e = string[2] {"a b", "\\\\"}, f = float16[2] {15360, 48128}, g = double[2] {inf, '
               '-nan}, '
               "h = uint64[1] {18446744073709551615}, i = int8[2] {-128,127}, j = uint8[1] {255}, k = bfloat16[1] "
               "{16256}, "
               "l = float[1] named {3}, m: tensor = int32[1] also = {-1}, p = float8e4m3fn[2] {56, 184}, r = uint32[1] "
               "{4294967295}, "
               "s = int16[1] {-5}, t = uint16[1] {65535}> (x) }",
    "packed and complex tensors": "g (float x) => (float y) { y = my.ops.A <n = complex64[2] {1,2,3,4}, o = complex128 "
                                  "{1.5,-2}, "
                                  "q = int4[3] {33, 3}, u = float4e2m1[2] {18}> (x) }",
    "types as attributes": "g (float x) => (float y) { y = my.ops.A <a = float[2,N], b = seq(int64[]), c: type_proto = "
                           "float> (x) }",
    "nested graphs": "g (bool c, float[N] x) => (float[N] y) { y = If (c) <then_branch = t () => (float[N] a) { a = "
                     "Neg (x) }, "
                     "else_branch: graph = e => (float[N] b) <float[1] k = {2}, float[N] d> { d = Mul (x, k) "
                     "b = If (c) <then_branch = t2 () => (float[N] a2) { a2 = Neg (d) }, else_branch = e2 () => "
                     "(float[N] b2) "
                     "{ b2 = Abs (d) }> }> }",
    "loop": "g (int64 n, float[2] x) => (float[2] y, float[k,2] z) { cond = Constant <value = bool {1}> () "
            "y, z = Loop (n, cond, x) <body = b (int64 i, bool c, float[2] s) => (bool c2, float[2] s2, float[2] o) "
            "{ c2 = Identity (c) s2 = Add (s, s) o = Neg (s2) }> }",
    "initializers": 'g (float[2] x = {1, 2}, float[2] d) => (float[2] y) <float[2] w = {0.1, 3.4028235e+38}, float[2] '
                    'd = {5,6}, '
                    'string[1] s = {"a"}, int64[2] i = {1,2}, float k = {7}, float[2] m, float[2] "v v" = {1,1}> '
                    '{ m = Mul (x, w) y = Add (m, d) }',
    "external data": 'g (float[2] x) => (float[2] y) <float[2] w = ["location": "w.bin", "offset": "8", "length": '
                     '"8"], '
                     'float[2] v = ["location": "w.bin"]> { a = Mul (x, w) y = Mul (a, v) }',
    "value infos": "g (float[2] x) => (float[2] y, z) <float[2] a, seq(float[N]) b, float[2] y> "
                   "{ a = Neg (x) b = my.ops.S (a) z = my.ops.T (b) y = Neg (a) }",
    "passing through": "g (float x) => (float x, float x) {}",
}

HEADERS = {
    "all entries": '<ir_version: 9, opset_import: ["": 20, "a.b": 3], producer_name: "p \\"q\\"", producer_version: '
                   '"", domain: "d", '
                   'model_version: 7, doc_string: "two\nlines", metadata_props: ["k": "v", "k2": ""]>\n',
    "negative version": '<ir_version: 10, opset_import: ["": 21], model_version: -1>\n',
}

MAIN = "g (float[N] x) => (float[N] y) { y = my.ops.F <alpha = 2.0, n = 3> (x) }\n"
FUNCTIONS = {
    "plain": '<domain: "my.ops", opset_import: ["": 21]> F (x) => (y) { y = Neg (x) }',
    "overload": '<domain: "my.ops", overload: "o1", opset_import: ["": 21]> F (x) => (y) { y = Neg (x) }',
    "references": '<domain: "my.ops", opset_import: ["": 21]> F <alpha, n, name>(x, w) => (y, z) '
                  '{ y = LeakyRelu <alpha: float = @alpha> (x) z = Softmax <axis: int = @n> (y) '
                  'q = Conv <auto_pad: string = @name> (x, w) }',
    "defaults": '<domain: "my.ops", opset_import: ["": 21]> F <n, alpha: float = 0.5, m: ints = [1, 2], s = "t">(x) => '
                '(y) '
                "{ y = LeakyRelu <alpha: float = @alpha> (x) }",
    "types in functions": '<domain: "my.ops", opset_import: ["": 21]> F (float[N] x, w) => (float[N] y) <float[N] a, '
                          'int64 w> '
             "{ a = Neg (x) y = Neg (a) }",
    "nested": '<domain: "my.ops", opset_import: ["": 21]> F <alpha>(x) => (y) { c = Constant <value = bool {1}> () '
              "y = If (c) <then_branch = t () => (a) { a = LeakyRelu <alpha: float = @alpha> (x) }, "
              "else_branch = e () => (b) { b = Neg (x) }> }",
    "two": '<domain: "my.ops", opset_import: ["": 21, "my.ops": 1]> F (x) => (y) { y = my.ops.G (x) }\n'
           '<domain: "my.ops", opset_import: ["": 21], doc_string: "dropped"> "G" (x) => (y) { y = Neg (x) }',
}

# What onnx.printer loses or leaves out as "..." (docs/reference/onnx-text.md): there only our print is compared.
PRINTER_LOSES = {"packed and complex tensors", "defaults", "types in functions"}

# Only we read these: onnx.parser refuses or misreads them, onnx.printer or the IR has them.
OURS = {
    "op in quotes": 'g (float x) => (float y) { y = "my-ops"."a b" (x) }',
    "attribute in quotes": 'g (float x) => (float y) { y = Neg <"a b": int = 3> (x) }',
    "graph in quotes": 'g (bool c) => (float y) { y = If (c) <then_branch = "t t" () => (a) { a = Constant '
                       '<value_float = 1.0> () }, '
                       'else_branch = "" () => (b) { b = Constant <value_float = 2.0> () }> }',
    "named like words": 'g (float "float", "inf") => (float y, "seq") { y = Neg ("float") "seq" = Neg (inf) }',
    "lists of tensors": "g (float x) => (float y) { y = Neg <a = [float[1] {1}, float[2] b {1,2}], t = [float[2], "
                        "seq(float)]> (x) }",
    "tensors in quotes": 'g (float x) => (float y) { y = Neg <a = float[1] "a b" {1}, e = float[1] ["location": "w", '
                         '"length": "4"]> (x) }',
    "empty strings as onnx prints them": "g (float x) => (float y) { y = Neg <ss: strings = ], t: tensor = string[0] "
                                         "}> (x) }",
}

REFUSED = {
    "undefined operand": ("g (float x) => (float y) { y = Neg (z) }", ':1:91: error: "z" is not defined before this '
                                                                      'node'),
    "out of order": ("g (float x) => (float y) { y = Neg (a) a = Neg (x) }", '"a" is not defined before this node'),
    "defined twice": ("g (float x) => (float y) { y = Neg (x) y = Neg (x) }", '"y" is already a node\'s result'),
    "shadowed": ("g (bool x) => (float y) { y = If (x) <then_branch = t () => (x) { x = Neg (x) }> }",
                 "of an enclosing graph"),
    "no output": ("g (float x) => (float y) {}", 'output "y" is produced by no node'),
    "no opset": ("g (float x) => (float y) { y = other.Neg (x) }", 'domain "other" stands in no opset_import'),
    "too many values": ("g (float x) => (float x) <float[2] w = {1,2,3}> {}", "more values than the 2"),
    "too few values": ("g (float x) => (float x) <float[2] w = {1}> {}", "1 values, but the dimensions need 2"),
    "huge tensor": ("g (float x) => (float x) <float[1000000,1000000] w = {1}> {}", "more than the text holds"),
    "overflow": ("g (float x) => (float x) <float[4294967296,4294967296] w = {1}> {}", "too large"),
    "elided": ("g (float x) => (float x) <float[2] w = ...> {}", "printed without the tensor's data"),
    "no int8": ("g (float x) => (float x) <int8[1] w = {300}> {}", "300 is no int8"),
    "mixed list": ("g (float x) => (float y) { y = Neg <a = [1, 2.0]> (x) }", "kind int was expected"),
    "reference outside": ("g (float x) => (float y) { y = Neg <a: int = @b> (x) }", "only bodies of functions"),
    "attribute without name": ('g (float x) => (float y) { y = Neg <"" = 2> (x) }', "an attribute has no name"),
    "function's attribute without name": (MAIN.strip() + " " + '<domain: "my.ops", opset_import: ["": 21]> F <""> (x) '
                                                               '=> (y) { y = Neg (x) }', "an attribute has no name"),
    "attribute twice": ("g (float x) => (float y) { y = Neg <a = 1, a = 2> (x) }", "two attributes are named 'a'"),
    "calls itself": (MAIN + '<domain: "my.ops", opset_import: ["my.ops": 1]> F (x) => (y) { y = my.ops.F (x) }',
                     "calls itself"),
    "function twice": (MAIN + 2 * '<domain: "my.ops", opset_import: ["": 21]> F (x) => (y) { y = Neg (x) }\n',
                       "two functions"),
    "no end": ("g (float x) => (float y) { y = Neg (x)", "the end of the text"),
    "string without end": ('g (float x) => (float y) { y = Neg <s = "a> (x) }', "this string has no end"),
    "behind the end": ("g (float x) => (float x) {} \x01", "byte 0x01 starts nothing here"),
    "deep type": ("g (" + "seq(" * 200 + "float" + ")" * 200 + " x) => (float x) {}", "nest deeper"),
}
