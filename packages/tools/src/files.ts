import { type Issue, type JsonObject, type Tool, ToolError } from '@gantry/contract'
import { mediaType } from '@gantry/core/internal/artifacts/artifact'
import { type Shown, showBytes } from '@gantry/core/internal/artifacts/show-bytes'
import type { AttachedFile, Backend, BackendContext } from '@gantry/core/internal/backends/backend'
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
/** The properties of every file. */
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
  // A retry stores the same content again under another id, which belongs to the same call.
  effect: 'repeatable',
  timeoutMs,
  inputSchema: {
    type: 'object',
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 200 },
      content: { type: 'string', description: 'The content, when it is text.' },
      base64: { type: 'string', description: 'The content, when it is bytes.' },
      mimeType: { type: 'string', maxLength: 200, description: 'By name and content when absent.' },
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
      offset: { type: 'integer', minimum: 0, description: 'Where to begin, in bytes; 0 when absent.' },
      // A character has up to four bytes, and one must fit.
      bytes: { type: 'integer', minimum: 4, maximum: 32_768, description: 'How many; 16384 when absent.' },
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
      limit: { type: 'integer', minimum: 1, maximum: 100, description: '50 when absent.' },
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
  // Removing a missing file changes nothing and returns false.
  effect: 'repeatable',
  timeoutMs,
  inputSchema: { type: 'object', properties: { id }, required: ['id'], additionalProperties: false },
  outputSchema: { type: 'object', properties: { removed: { type: 'boolean' } }, required: ['removed'] },
  examples: [{ title: 'One that is not there', args: { id: `art_${'0'.repeat(32)}` }, output: { removed: false } }],
})

/** The action of each tool; a binding names one. */
const actions = { put: putFile, get: getFile, info: fileInfo, list: listFiles, remove: removeFile } as const

type Action = keyof typeof actions

/**
 * The backend of the tools `files:*` and of no others: keeps, shows and removes files of callers, each in the name of who
 * calls.
 * - Errors: those of the artifact store; INPUT_INVALID for content that is not base64.
 */
export function filesBackend(): Backend {
  return {
    kind: 'files',
    name: 'files',
    builtin: true,
    tidy: true,
    check: (binding, tool) => void actionOf(binding, tool),
    // It is a part of this process.
    health: async () => ({ status: 'up' }),
    call: ({ binding, tool, args }, context) => actions[actionOf(binding, tool)](args, context),
  }
}

function actionOf({ action }: { readonly [option: string]: unknown }, { namespace, name }: Tool): Action {
  if (typeof action === 'string' && Object.hasOwn(actions, action)) return action as Action
  const message = `must be one of ${Object.keys(actions).join(', ')}`
  throw new ToolError('CONFIG_INVALID', `The files binding of ${namespace}:${name} is wrong: /action ${message}.`, {
    details: { issues: [{ path: '/action', message }] },
  })
}

/** A host that keeps files also has them on the result. */
async function putFile(args: JsonObject, context: BackendContext): Promise<unknown> {
  const file = fileOf(args as JsonObject & PutArguments)
  if (context.keepsFiles) return context.attach(file)
  const { identity, callId, fence, signal, artifacts } = context
  return artifacts.put({ ...file, content: Buffer.from(file.content) }, { identity, callId, fence }, signal)
}

interface PutArguments {
  readonly name: string
  readonly content?: string
  readonly base64?: string
  readonly mimeType?: string
}

function fileOf({ name, content, base64, mimeType }: PutArguments): Required<AttachedFile> {
  const bytes = base64 === undefined ? Buffer.from(content ?? '') : Buffer.from(base64, 'base64')
  if (base64 !== undefined && bytes.toString('base64') !== base64) {
    throw invalid({ path: '/base64', message: 'is not base64 in its standard form, with padding' })
  }
  const last = name.split(/[\\/]/).at(-1) ?? ''
  return { name: last, content: bytes, mimeType: mimeType ?? mediaType(last, bytes) }
}

async function getFile(args: JsonObject, { artifacts, identity, signal }: BackendContext): Promise<unknown> {
  const { id, offset = 0, bytes: most = 16_384, as = 'auto' } = args as JsonObject & GetArguments
  const { artifact, content } = await artifacts.read(id, identity, { start: offset, end: offset + most }, signal)
  const { name, mimeType, bytes } = artifact
  const { start, end, ...shown } = shownAs(as, Buffer.from(content), offset, offset + content.length >= bytes)
  return { id, name, mimeType, bytes, offset: start, ...shown, ...(end < bytes ? { next: end } : {}) }
}

interface GetArguments {
  readonly id: string
  readonly offset?: number
  readonly bytes?: number
  readonly as?: 'auto' | 'text' | 'base64'
}

function shownAs(as: 'auto' | 'text' | 'base64', content: Buffer, start: number, isEnd: boolean): Shown {
  if (as === 'base64') return { base64: content.toString('base64'), start, end: start + content.length }
  const shown = showBytes(content, start, isEnd)
  if (as === 'auto' || 'text' in shown) return shown
  throw invalid({ path: '/as', message: 'asks for text, but the file holds other bytes; ask for base64' })
}

async function fileInfo(args: JsonObject, { artifacts, identity, signal }: BackendContext): Promise<unknown> {
  return artifacts.info(args.id as string, identity, signal)
}

async function listFiles(args: JsonObject, { artifacts, identity, signal }: BackendContext): Promise<unknown> {
  const { prefix, cursor, limit = 50 } = args as { prefix?: string; cursor?: string; limit?: number }
  return artifacts.list({ prefix, cursor, limit }, identity, signal)
}

async function removeFile(args: JsonObject, { artifacts, identity, signal }: BackendContext): Promise<unknown> {
  return { removed: await artifacts.remove(args.id as string, identity, signal) }
}

function invalid(issue: Issue): ToolError {
  return new ToolError('INPUT_INVALID', `The arguments are wrong: ${issue.path} ${issue.message}.`, {
    details: { issues: [issue] },
  })
}
