import type { JsonObject } from '@gantry/contract'
import type { DefinedTool } from '@gantry/core/internal/tools/tool'
import fc from 'fast-check'
import { builtinTools } from './builtin.ts'

/** Pieces of text that look like secrets or URLs, do not show, or are what stands for hidden text. */
const pieces = [
  ...[
    'see://a:',
    '@',
    'https://x:1@evil.example\\@good.example/',
    'postgres://u:p@h/',
    'password=hunter2',
    'Bearer ey.a.b',
  ],
  ...['"apiKey": "k"', 'ghp_16C7e42F292c6912E7710c838347Ae178B4a', '-----BEGIN PRIVATE KEY-----', '[redacted]'],
  ...[
    '[redacted 3 bytes hmac-sha256:00000000000000000000000000000000]',
    'rm -rf /',
    '\n',
    '\r',
    '\t',
    '\0',
    '\u001b[2J',
  ],
  ...[
    '\u202e',
    '\u2066',
    '\u200b',
    '\ufeff',
    '\u00a0',
    '\u00ad',
    '\u2800',
    '\u{e0041}',
    '\ud800',
    'é',
    '"',
    '\\',
    '\\n',
    '  ',
  ],
]
const names = ['auth.py', 'password', 'token.sh', 'api_key', 'Authorization', 'cookie', 'main.py', 'a/secret/b', 'x~1y']

/** Text that a caller who hides something would write. */
export const hostileText: fc.Arbitrary<string> = fc
  .array(fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 5 })), { minLength: 1, maxLength: 6 })
  .map((parts) => parts.join(''))
const name = fc.oneof(fc.constantFrom(...names), fc.stringMatching(/^[a-z]{1,5}$/))
const map = fc.dictionary(name, hostileText, { maxKeys: 3 })
const free = fc.oneof(
  hostileText,
  map,
  fc.array(hostileText, { maxLength: 2 }),
  fc.dictionary(name, map, { maxKeys: 2 }),
  fc.integer(),
  fc.constant(null),
)
const seen = hostileText.map((text) => text.replace(/\p{Cc}/gu, '.').slice(0, 100))

/** Arguments of each built-in tool that takes more than the id of something. */
const argumentsOf: { readonly [tool: string]: fc.Arbitrary<object> } = {
  'code:run': fc.record(
    { language: fc.constantFrom('python', 'javascript'), code: hostileText, files: map, stdin: hostileText },
    { requiredKeys: ['language', 'code'] },
  ),
  'shell:run': fc.oneof(
    fc.record({ script: hostileText, files: map, stdin: hostileText }, { requiredKeys: ['script'] }),
    fc.record({ argv: fc.array(hostileText, { minLength: 1, maxLength: 4 }), files: map }, { requiredKeys: ['argv'] }),
  ),
  'code:session': fc.oneof(
    fc.record({ action: fc.constant('run'), session: hostileText, code: hostileText, files: map }),
    fc.record({ action: fc.constant('files'), session: hostileText, path: hostileText }),
  ),
  'code:program': fc.record({ code: hostileText }),
  'http:fetch': fc.record(
    { url: hostileText, headers: map, query: map, body: hostileText, json: free },
    { requiredKeys: ['url'] },
  ),
  'files:put': fc.record({ name: seen, content: hostileText }),
  'files:list': fc.record({ prefix: seen }),
  'kb:add': fc.record({ text: hostileText, title: seen, tags: fc.array(seen, { maxLength: 2 }), metadata: map }),
  'kb:search': fc.record({ query: hostileText }),
}

/** A call of any of them. */
export const hostileCall: fc.Arbitrary<{ readonly tool: string; readonly args: JsonObject }> = fc
  .constantFrom(...Object.keys(argumentsOf))
  .chain((tool) =>
    fc.record({ tool: fc.constant(tool), args: (argumentsOf[tool] ?? fc.constant({})) as fc.Arbitrary<JsonObject> }),
  )

/** The built-in tools with their schemas, each with a backend that only takes note of what it receives. */
export function notingTools(received: (tool: string, args: unknown) => void): DefinedTool[] {
  return builtinTools().map((defined) => {
    const { outputSchema: _any, ...tool } = defined.tool
    const id = `${tool.namespace}:${tool.name}`
    return {
      ...defined,
      tool: { ...tool, backends: [{ kind: 'local' }] },
      output: undefined,
      run: (args: unknown) => {
        received(id, structuredClone(args))
        return { done: true }
      },
    }
  })
}
