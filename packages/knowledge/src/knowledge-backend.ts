import { type Json, type JsonObject, type Tool, ToolError, type Warning } from '@gantry/contract'
import type { Backend, BackendContext } from '@gantry/core/internal/backends/backend'
import type { Knowledge, KnowledgeQuery, NewDocument } from './knowledge.ts'

/** Where the knowledge comes from; asked at the first call, so that nothing of it is loaded before. */
export type KnowledgeSource = () => Knowledge | Promise<Knowledge>

/** What a binding may say: the one thing that its tool does. */
const actions = { add, search, get, remove } as const

type Action = keyof typeof actions

/**
 * Keeps texts and finds them again, each for the tenant of who calls.
 * - Errors: those of the place that keeps them; INPUT_INVALID for a file that holds no text.
 */
export function knowledgeBackend(source: KnowledgeSource): Backend {
  return {
    kind: 'knowledge',
    name: 'knowledge',
    builtin: true,
    tidy: true,
    check: (binding, tool) => void actionOf(binding, tool),
    // It is a part of this process.
    health: async () => ({ status: 'up' }),
    async call({ binding, tool, args }, context) {
      const action = actionOf(binding, tool)
      return actions[action](await source(), args, context)
    },
  }
}

function actionOf({ action }: { readonly [option: string]: unknown }, { namespace, name }: Tool): Action {
  if (typeof action === 'string' && Object.hasOwn(actions, action)) return action as Action
  const message = `must be one of ${Object.keys(actions).join(', ')}`
  throw new ToolError('CONFIG_INVALID', `The knowledge binding of ${namespace}:${name} is wrong: /action ${message}.`, {
    details: { issues: [{ path: '/action', message }] },
  })
}

async function add(knowledge: Knowledge, args: JsonObject, context: BackendContext): Promise<Json> {
  const given = (args.documents ?? [args]) as unknown as readonly (NewDocument & { readonly artifact?: string })[]
  const documents: NewDocument[] = []
  for (const [index, { artifact, ...document }] of given.entries()) {
    const path = args.documents === undefined ? '/artifact' : `/documents/${index}/artifact`
    documents.push(
      artifact === undefined ? document : { ...document, ...(await fromFile(artifact, path, document, context)) },
    )
  }
  const added = await knowledge.add(documents, context.identity.tenant, context.signal)
  told(added.warning, context)
  if (!knowledge.lasting) context.log('warn', forgetful)
  return { documents: added.documents as unknown as Json, lasting: knowledge.lasting }
}

const forgetful =
  'This knowledge is in the memory of this process and goes with it; what is added by way of `gantry serve` is kept.'
const mostFileBytes = 16_777_216

/** The text of a file, which is also its source and its title unless told. */
async function fromFile(
  artifact: string,
  path: string,
  { source, title }: Partial<NewDocument>,
  { artifacts, identity, signal }: BackendContext,
): Promise<Pick<NewDocument, 'text' | 'source' | 'title'>> {
  const range = { start: 0, end: mostFileBytes + 1 }
  const { artifact: info, content } = await artifacts.read(artifact, identity, range, signal)
  const fault = content.length > mostFileBytes ? `is longer than ${mostFileBytes} bytes` : undefined
  const text = fault === undefined ? textOf(content) : undefined
  if (text !== undefined) return { text, source: source ?? `artifact:${artifact}`, title: title ?? info.name }
  const issue = { path, message: fault ?? 'is no text in UTF-8' }
  throw new ToolError('INPUT_INVALID', `The file ${issue.message}.`, { details: { issues: [issue] } })
}

function textOf(content: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(content)
  } catch {
    return undefined
  }
}

async function search(knowledge: Knowledge, args: JsonObject, context: BackendContext): Promise<Json> {
  const query = args as unknown as KnowledgeQuery
  const { warning, ...page } = await knowledge.search(query, context.identity.tenant, context.signal)
  told(warning, context)
  if (page.items.length === 0 && !knowledge.lasting) context.log('warn', forgetful)
  return page as unknown as Json
}

async function get(knowledge: Knowledge, args: JsonObject, { identity, signal }: BackendContext): Promise<Json> {
  const { id, from = 0, limit = usualChunks } = args as unknown as { id: string; from?: number; limit?: number }
  return (await knowledge.get(id, { from, limit }, identity.tenant, signal)) as unknown as Json
}

const usualChunks = 50

async function remove(knowledge: Knowledge, args: JsonObject, { identity, signal }: BackendContext): Promise<Json> {
  const which = args as unknown as { readonly id: string } | { readonly source: string }
  return { removed: await knowledge.remove(which, identity.tenant, signal) }
}

function told(warning: Warning | undefined, context: BackendContext): void {
  if (warning !== undefined) context.log('warn', warning.message)
}
