"""Python code in which `return` stands outside functions, and cells whose last expression is their value."""

import _ast

RETURNED = '__gantry_return__'
TOP_LEVEL_AWAIT = 0x2000


def compile_tree(source, name, session):
    """Compiles a program that leaves `(kind, value)` in the global named RETURNED: see `keep_value`."""
    tree = compile(source, name, 'exec', _ast.PyCF_ONLY_AST | TOP_LEVEL_AWAIT, True)
    if session and tree.body and isinstance(tree.body[-1], _ast.Expr):
        tree.body[-1] = keep_value(tree.body[-1], tree.body[-1].value, 1)
    returns = Returns(name)
    body = returns.block(tree.body, 0)
    if returns.found:
        head = prologue(body)
        rest = body[head:]
        place = rest[0]
        loop = _ast.While(_ast.Constant(True), [*rest, at(place, _ast.Break())], [])
        tree.body = [*body[:head], at(place, loop)]
    return compile(tree, name, 'exec', TOP_LEVEL_AWAIT, True)


def prologue(body):
    """How many statements must stay the first of a module: its docstring and imports from __future__."""
    count = 0
    for statement in body:
        is_text = isinstance(statement, _ast.Expr) and isinstance(statement.value, _ast.Constant)
        is_future = isinstance(statement, _ast.ImportFrom) and statement.module == '__future__'
        if not is_future and not (is_text and count == 0):
            break
        count += 1
    return count


class Returns:
    """Turns `return X` at the top of a module into a `break` out of a loop around all of it.

    Leaving a loop is what returning is to `with`, `try` and `finally`: context managers see no exception and `except`
    catches nothing. An inner loop that was left this way is left by a second `break` behind it.
    """

    def __init__(self, name):
        self.name = name
        self.found = False

    def block(self, statements, loops):
        return [made for statement in statements for made in self.statement(statement, loops)]

    def statement(self, node, loops):
        if isinstance(node, _ast.Return):
            self.found = True
            value = keep_value(node, node.value or _ast.Constant(None), 2 if node.value else 0)
            return [value, at(node, _ast.Break())]
        if isinstance(node, (_ast.Break, _ast.Continue)) and loops == 0:
            word = 'break' if isinstance(node, _ast.Break) else 'continue'
            text = "'break' outside loop" if word == 'break' else "'continue' not properly in loop"
            end = (node.end_lineno, node.end_col_offset + 1)
            raise SyntaxError(text, (self.name, node.lineno, node.col_offset + 1, None, *end))
        if isinstance(node, (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)):
            return [node]
        before, self.found = self.found, False
        self.inside(node, loops)
        left = self.found and isinstance(node, (_ast.For, _ast.AsyncFor, _ast.While))
        self.found = self.found or before
        if not left:
            return [node]
        test = _ast.If(_ast.Name(RETURNED, _ast.Load()), [_ast.Break()], [])
        return [node, at(node, test)]

    def inside(self, node, loops):
        is_loop = isinstance(node, (_ast.For, _ast.AsyncFor, _ast.While))
        for field in ('body', 'orelse', 'finalbody'):
            statements = getattr(node, field, None)
            if statements:
                setattr(node, field, self.block(statements, loops + (is_loop and field == 'body')))
        returned = self.found
        for part in (*getattr(node, 'handlers', ()), *getattr(node, 'cases', ())):
            part.body = self.block(part.body, loops)
            if returned and isinstance(part, _ast.ExceptHandler):
                # An exception on the way out has taken the place of the return.
                forget = _ast.Assign([_ast.Name(RETURNED, _ast.Store())], _ast.Constant(()))
                part.body.insert(0, at(part.body[0], forget))


def keep_value(place, value, kind):
    """Keeps a value with its kind: 2 returned, 1 the last expression of a cell, 0 a return of nothing."""
    pair = _ast.Tuple([_ast.Constant(kind), value], _ast.Load())
    return at(place, _ast.Assign([_ast.Name(RETURNED, _ast.Store())], pair))


def at(place, node):
    """Gives a made node, and those in it that have none, the place of a node of the program."""
    pending = [node]
    while pending:
        made = pending.pop()
        if 'lineno' in made._attributes and not hasattr(made, 'lineno'):
            made.lineno, made.col_offset = place.lineno, place.col_offset
            made.end_lineno, made.end_col_offset = place.end_lineno, place.end_col_offset
            for field in made._fields:
                child = getattr(made, field, None)
                pending.extend(child if isinstance(child, list) else [child] if isinstance(child, _ast.AST) else [])
    return node
