import { type Issue, type JsonObject, type Tool, ToolError } from '@gantry/contract'
import { mediaType } from '@gantry/core/internal/artifacts/media-type'
import { type Shown, showBytes } from '@gantry/core/internal/artifacts/show-bytes'
import type { AttachedFile, Backend, BackendContext } from '@gantry/core/internal/backends/backend'

/** What a binding may say: the one thing that its tool does. */
const actions = { put, get, info, list, remove } as const

type Action = keyof typeof actions

/**
 * The backend of the tools `files:*` and of no others: keeps, shows and removes files of callers, each in the name of who
 * calls.
 * - Errors: those of the place that keeps them; INPUT_INVALID for content that is no base64.
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
async function put(args: JsonObject, context: BackendContext): Promise<unknown> {
  const file = fileOf(args as unknown as PutArguments)
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

async function get(args: JsonObject, { artifacts, identity, signal }: BackendContext): Promise<unknown> {
  const { id, offset = 0, bytes: most = 16_384, as = 'auto' } = args as unknown as GetArguments
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

async function info(args: JsonObject, { artifacts, identity, signal }: BackendContext): Promise<unknown> {
  return artifacts.info(args.id as string, identity, signal)
}

async function list(args: JsonObject, { artifacts, identity, signal }: BackendContext): Promise<unknown> {
  const { prefix, cursor, limit = 50 } = args as { prefix?: string; cursor?: string; limit?: number }
  return artifacts.list({ prefix, cursor, limit }, identity, signal)
}

async function remove(args: JsonObject, { artifacts, identity, signal }: BackendContext): Promise<unknown> {
  return { removed: await artifacts.remove(args.id as string, identity, signal) }
}

function invalid(issue: Issue): ToolError {
  return new ToolError('INPUT_INVALID', `The arguments are wrong: ${issue.path} ${issue.message}.`, {
    details: { issues: [issue] },
  })
}
