import { type DefinedTool, defineTool } from '@gantry/core/internal/tools/tool'

/** Tools over files of callers; each caller sees those of its own tenant. */
export function fileTools(): DefinedTool[] {
  return [put, get, list, info, remove]
}

const namespace = 'files'
const timeoutMs = 60_000
const id = { type: 'string', maxLength: 100, description: 'The id of the file, such as art_0123….' } as const
const about = {
  id: { type: 'string' },
  name: { type: 'string' },
  mimeType: { type: 'string' },
  bytes: { type: 'integer' },
} as const
const whole = { ...about, digest: { type: 'string' }, createdAt: { type: 'string' } } as const
/** What every file says of itself. */
const required = ['id', 'name', 'mimeType', 'bytes', 'digest'] as const

const put = defineTool({
  namespace,
  name: 'put',
  title: 'Keep a file',
  description: 'Keeps a text or bytes as a file that other calls can read, and gives its id.',
  tags: ['files', 'artifacts', 'upload'],
  docs:
    'The id goes wherever a tool takes {"artifact": id}, as in the files of code:run. A file never changes; put the new ' +
    'content as another one. Folders are taken off the name. In a service a file goes when its call does.',
  backends: [{ kind: 'files', action: 'put' }],
  // A repeat keeps the same content once more under another id, which goes with the same call.
  effect: 'repeatable',
  timeoutMs,
  inputSchema: {
    type: 'object',
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 200 },
      content: { type: 'string', description: 'The content, when it is text.' },
      base64: { type: 'string', description: 'The content, when it is bytes.' },
      mimeType: { type: 'string', maxLength: 200, description: 'By name and content unless told.' },
    },
    required: ['name'],
    oneOf: [{ required: ['content'] }, { required: ['base64'] }],
    additionalProperties: false,
  },
  outputSchema: { type: 'object', properties: whole, required },
  examples: [{ title: 'A small table', args: { name: 'prices.csv', content: 'item,price\ntea,3\n' } }],
})

const get = defineTool({
  namespace,
  name: 'get',
  title: 'Read a file',
  description: 'Reads a part of a file: text as text, cut between characters, and other bytes as base64.',
  tags: ['files', 'artifacts', 'download', 'read'],
  docs: 'Go on at `next`, which is absent when there is no more.',
  backends: [{ kind: 'files', action: 'get' }],
  effect: 'read',
  timeoutMs,
  inputSchema: {
    type: 'object',
    properties: {
      id,
      offset: { type: 'integer', minimum: 0, description: 'Where to begin, in bytes; 0 unless told.' },
      // A character has up to four bytes, and one must fit.
      bytes: { type: 'integer', minimum: 4, maximum: 32_768, description: 'How many; 16384 unless told.' },
      as: { enum: ['auto', 'text', 'base64'], description: 'auto (default) is text where the bytes are.' },
    },
    required: ['id'],
    additionalProperties: false,
  },
  outputSchema: {
    type: 'object',
    properties: {
      ...about,
      offset: { type: 'integer', description: 'Where this part begins.' },
      text: { type: 'string' },
      base64: { type: 'string' },
      next: { type: 'integer', description: 'The offset to go on from.' },
    },
    required: ['id', 'name', 'mimeType', 'bytes', 'offset'],
  },
  examples: [{ title: 'The beginning', args: { id: `art_${'0'.repeat(32)}`, bytes: 1_024 } }],
})

const list = defineTool({
  namespace,
  name: 'list',
  title: 'List files',
  description: 'Lists the files of the caller’s tenant, the newest first.',
  tags: ['files', 'artifacts'],
  backends: [{ kind: 'files', action: 'list' }],
  effect: 'read',
  timeoutMs,
  inputSchema: {
    type: 'object',
    properties: {
      prefix: { type: 'string', maxLength: 200, description: 'What the names begin with.' },
      cursor: { type: 'string', maxLength: 3_000, description: 'From the page before.' },
      limit: { type: 'integer', minimum: 1, maximum: 100, description: '50 unless told.' },
    },
    additionalProperties: false,
  },
  outputSchema: {
    type: 'object',
    properties: {
      items: { type: 'array', items: { type: 'object', properties: whole, required } },
      cursor: { type: 'string' },
    },
    required: ['items'],
  },
  examples: [{ title: 'Tables', args: { prefix: 'prices', limit: 10 } }],
})

const info = defineTool({
  namespace,
  name: 'info',
  title: 'Describe a file',
  description: 'Gives the name, the media type, the size and the digest of a file.',
  tags: ['files', 'artifacts'],
  backends: [{ kind: 'files', action: 'info' }],
  effect: 'read',
  timeoutMs,
  inputSchema: { type: 'object', properties: { id }, required: ['id'], additionalProperties: false },
  outputSchema: { type: 'object', properties: whole, required },
  examples: [{ title: 'One file', args: { id: `art_${'0'.repeat(32)}` } }],
})

const remove = defineTool({
  namespace,
  name: 'remove',
  title: 'Remove a file',
  description: 'Removes a file that the caller made, for good.',
  tags: ['files', 'artifacts', 'delete'],
  docs: 'Results that name the file keep its id. Files that hold the outcome or the arguments of a call stay.',
  backends: [{ kind: 'files', action: 'remove' }],
  // Removing what is gone changes nothing and says so.
  effect: 'repeatable',
  timeoutMs,
  inputSchema: { type: 'object', properties: { id }, required: ['id'], additionalProperties: false },
  outputSchema: { type: 'object', properties: { removed: { type: 'boolean' } }, required: ['removed'] },
  examples: [{ title: 'One that is not there', args: { id: `art_${'0'.repeat(32)}` }, output: { removed: false } }],
})
