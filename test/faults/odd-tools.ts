import { type DefinedTool, defineTool } from 'gantry'

/** Values that no tool should return; a caller gets the same value or an error. */
export const oddValues: { readonly [name: string]: () => unknown } = {
  'a text with NUL': () => 'a\0b',
  'a lone surrogate': () => 'a\ud800b',
  'an object whose key has NUL': () => ({ 'a\0b': 1 }),
  'numbers beyond 2^53': () => [2 ** 53 + 2, Number.MAX_VALUE],
  infinity: () => Number.POSITIVE_INFINITY,
  'a bigint': () => 2n ** 53n + 1n,
  '100,000 levels of nesting': () => deep(100_000),
  '500 levels of nesting': () => deep(500),
  'a circular reference': () => {
    const circle: { self?: unknown } = {}
    circle.self = circle
    return circle
  },
  'a getter that throws': () =>
    Object.defineProperty({}, 'bad', {
      enumerable: true,
      get: () => {
        throw new Error('no')
      },
    }),
  '__proto__ as its own key': () => JSON.parse('{"__proto__": {"polluted": true}}'),
  'three megabytes': () => 'x'.repeat(3_000_000),
  'a million entries': () => Array.from({ length: 1_000_000 }, (_, n) => n),
}

function deep(levels: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < levels; level++) value = [value]
  return value
}

/** Tools that return invalid values, and one that reports too many chunks. */
export function oddTools(): DefinedTool[] {
  const about = { namespace: 'fault', effect: 'read' } as const
  return [
    defineTool({
      ...about,
      name: 'echo',
      description: 'Answers what it was given.',
      inputSchema: { type: 'object', properties: { value: {} } },
      run: ({ value }) => value ?? null,
    }),
    defineTool({
      ...about,
      name: 'odd',
      description: 'Answers something odd.',
      inputSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      run: ({ name }) => oddValues[name]?.(),
    }),
    defineTool({
      ...about,
      name: 'flood',
      description: 'Reports far too much.',
      inputSchema: { type: 'object', properties: { chunks: { type: 'number' } }, required: ['chunks'] },
      async *run({ chunks }) {
        for (let n = 0; n < chunks; n++) yield `${n} ${'x'.repeat(1_000)}`
        return { chunks }
      },
    }),
  ]
}
