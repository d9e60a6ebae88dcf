import type { BackendBinding, ToolExample } from '@gantry/contract'
import { type Backend, type BackendHost, planReader } from '@gantry/core/internal/backends/backend'
import { type DefinedTool, defineTool } from '@gantry/core/internal/tools/tool'
import { checkWebOptions, fetchMethods, readBinding, safeMethods, usualBytes, type WebOptions } from './web/binding.ts'

/** The tool `http:fetch` within these options; throws CONFIG_INVALID for wrong ones. */
export function httpFetch(options: WebOptions = {}): DefinedTool {
  checkWebOptions(options)
  const { allow, methods = fetchMethods, maxBytes = usualBytes } = options
  const binding: BackendBinding = { kind: 'web', ...options }
  return defineTool({
    namespace: 'http',
    name: 'fetch',
    title: 'Fetch a URL',
    description:
      'Sends an HTTP request to a host that is allowed and returns the answer: JSON, text of a page, or bytes.',
    tags: ['http', 'web', 'url', 'download', 'api'],
    docs,
    // Safe methods may be repeated; all others may not.
    effect: methods.every((method) => safeMethods.includes(method)) ? 'read' : 'once',
    ...(allow === undefined ? {} : { egress: allow }),
    backends: [binding],
    timeoutMs: 60_000,
    annotations: { openWorldHint: true },
    inputSchema: {
      type: 'object',
      properties: {
        url: {
          type: 'string',
          minLength: 1,
          maxLength: 8_192,
          description: 'http or https; its origin must be allowed.',
        },
        method: { enum: [...methods], description: 'GET when absent.' },
        query: { ...texts, description: 'Added to the query of the URL, encoded.' },
        headers: {
          ...texts,
          description: 'A value may refer to a secret that is granted for the origin: "Bearer secret:name".',
        },
        body: { type: 'string', description: 'Text to send; give its content-type in headers.' },
        json: { description: 'A value to send as JSON.' },
        base64: { type: 'string', pattern: '^[A-Za-z0-9+/]*={0,2}$', description: 'Bytes to send.' },
        as: {
          enum: ['auto', 'text', 'html', 'json', 'base64', 'artifact'],
          description:
            'How to show the body. auto: JSON parsed, a page as text, other text as it is, bytes as base64 or a file. html: a page as it came.',
        },
        maxBytes: { type: 'integer', minimum: 1, maximum: maxBytes, description: 'Read no more than this.' },
        redirects: { type: 'integer', minimum: 0, maximum: 20, description: 'How many to follow; 5 when absent.' },
        stream: { type: 'boolean', description: 'Also stream text in chunks while it arrives.' },
      },
      required: ['url'],
      additionalProperties: false,
    },
    outputSchema: {
      type: 'object',
      properties: {
        status: { type: 'integer', description: 'Of the answer; 404 or 500 is an answer, too.' },
        url: { type: 'string', description: 'Where the answer came from, after redirects.' },
        headers: { type: 'object', description: 'By name in lower case.' },
        bytes: { type: 'integer', description: 'Of the body, as far as it was read.' },
        truncated: { const: true, description: 'There is more than was read.' },
        title: { type: 'string', description: 'Of a page that was made text.' },
        body: { type: 'string' },
        json: { description: 'When the body is JSON; text that only claims to be comes in body.' },
        base64: { type: 'string' },
        artifact: { type: 'object', description: 'The file that the body was kept as.' },
      },
      required: ['status', 'url', 'headers', 'bytes'],
    },
    examples: examples.filter(({ args: { method = 'GET' } }) => methods.some((each) => each === method)),
  })
}

const examples: readonly ToolExample[] = [
  { title: 'Read a page as text', args: { url: 'https://example.com/' } },
  {
    title: 'Send JSON with a granted secret',
    args: {
      url: 'https://api.example.com/items',
      method: 'POST',
      headers: { authorization: 'Bearer secret:example' },
      json: { name: 'first' },
    },
  },
]

const texts = {
  type: 'object',
  maxProperties: 100,
  additionalProperties: { type: 'string', maxLength: 16_384 },
} as const

const docs =
  'Only origins of `egress.allow` can be reached, and no private address unless a rule says so; each redirect is ' +
  'checked like a first request and takes no credentials to another origin. A status such as 404 is part of the ' +
  'output, not a failure: a call fails when there is no answer. A body beyond the limit is cut and `truncated`.'

/**
 * Fetches URLs that egress and the binding of the tool allow.
 * - Concurrency: any number of calls; they share nothing but the guard's connections.
 * - Cancellation: the request, or the reading of its answer, ends with the call's signal.
 * - Errors: INPUT_INVALID for arguments that cannot be sent, DENIED for a secret that may not go there, and what the
 *   guard says. An answer is an answer whatever its status, which is part of the output.
 * - Ownership: secrets are asked for once a call and not kept.
 */
export function webBackend(): Backend {
  const planOf = planReader(readBinding)
  let host: BackendHost | undefined
  return {
    kind: 'web',
    name: 'web',
    builtin: true,
    enforces: ['egress'],
    tidy: true,
    attach(given) {
      host = given
    },
    check: (binding, tool) => void readBinding(binding, tool),
    origin: ({ url }) => (typeof url === 'string' && URL.canParse(url) ? new URL(url).origin : undefined),
    // It is a part of this process.
    health: async () => ({ status: 'up' }),
    async call(call, context) {
      // Loaded with the first fetch, so that others start faster.
      const { fetchOnce } = await import('./web/fetch.ts')
      return fetchOnce(call, planOf(call), host, context)
    },
  }
}
