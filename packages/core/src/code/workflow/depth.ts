import type { Cursor } from './cursor.ts'
import type { Expression } from './syntax.ts'

/** Each sign and member in a row is one level more of what is built; the engine takes three times as many. */
const deepest = 1_000

/** Refuses an expression that is too deep to be written, without going so deep itself. */
export function checkDepth(whole: Expression, cursor: Cursor): void {
  const waiting: [Expression, number][] = [[whole, 1]]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [expression, depth] = next
    if (depth > deepest) {
      cursor.fail(
        `More than ${deepest} signs or members stand in a row; set a variable to a part of it.`,
        expression.at,
      )
    }
    for (const part of partsOf(expression)) waiting.push([part, depth + 1])
  }
}

function partsOf(made: Expression): readonly Expression[] {
  switch (made.kind) {
    case 'constant':
    case 'variable':
      return []
    case 'list':
      return made.members
    case 'object':
      return made.members.map(({ value }) => value)
    case 'member':
      return [made.of, made.key]
    case 'call':
      return made.args
    case 'not':
    case 'minus':
      return [made.of]
    case 'pair':
      return [made.left, made.right]
    case 'choice':
      return [made.test, made.then, made.otherwise]
  }
}
