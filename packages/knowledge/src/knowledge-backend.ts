import { type Json, type JsonObject, type Tool, ToolError, type Warning } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { Backend, BackendContext } from '@gantry/core/internal/backends/backend'
import type { Knowledge, KnowledgeQuery, NewDocument } from './knowledge.ts'

/** Opens the knowledge store on the first call, so that nothing is loaded before. */
export type KnowledgeSource = () => Knowledge | Promise<Knowledge>

/** The action of a binding: what its tool does. */
const actions = { add, search, get, remove } as const

type Action = keyof typeof actions

/**
 * Stores texts and finds them again, each for the tenant of the caller.
 * - Errors: those of the knowledge store; INPUT_INVALID for an artifact that is not text.
 */
export function knowledgeBackend(source: KnowledgeSource): Backend {
  return {
    kind: 'knowledge',
    name: 'knowledge',
    builtin: true,
    tidy: true,
    check: (binding, tool) => void actionOf(binding, tool),
    // The backend runs in this process and is always up.
    health: async () => ({ status: 'up' }),
    async call({ binding, tool, args }, context) {
      const action = actionOf(binding, tool)
      return actions[action](await source(), args, context)
    },
  }
}

function actionOf({ action }: { readonly [option: string]: unknown }, { namespace, name }: Tool): Action {
  if (isAction(action)) return action
  const message = `must be one of ${Object.keys(actions).join(', ')}`
  throw new ToolError('CONFIG_INVALID', `The knowledge binding of ${namespace}:${name} is wrong: /action ${message}.`, {
    details: { issues: [{ path: '/action', message }] },
  })
}

function isAction(value: unknown): value is Action {
  return isText(value) && Object.hasOwn(actions, value)
}

async function add(knowledge: Knowledge, args: JsonObject, context: BackendContext): Promise<object> {
  const given = Array.isArray(args.documents)
    ? args.documents.filter((each): each is JsonObject => isObject(each))
    : [args]
  const documents: NewDocument[] = []
  for (const [index, each] of given.entries()) {
    const document = documentIn(each)
    const artifact = textIn(each.artifact)
    const path = args.documents === undefined ? '/artifact' : `/documents/${index}/artifact`
    documents.push(
      artifact === undefined ? document : { ...document, ...(await fromFile(artifact, path, document, context)) },
    )
  }
  const added = await knowledge.add(documents, context.identity.tenant, context.signal)
  warn(added.warning, context)
  if (!knowledge.lasting) context.log('warn', forgetful)
  return { documents: added.documents, lasting: knowledge.lasting }
}

/** A document in arguments that the schema of the tool has validated. */
function documentIn({ id, text, title, source, tags, metadata }: JsonObject): NewDocument {
  return {
    id: textIn(id),
    text: textIn(text) ?? '',
    title: textIn(title),
    source: textIn(source),
    tags: textsIn(tags),
    metadata: isObject(metadata) ? metadata : undefined,
  }
}

function textIn(value: Json | undefined): string | undefined {
  return isText(value) ? value : undefined
}

function textsIn(value: Json | undefined): readonly string[] | undefined {
  return Array.isArray(value) ? value.filter(isText) : undefined
}

function numberIn(value: Json | undefined): number | undefined {
  return typeof value === 'number' ? value : undefined
}

const forgetful =
  'This knowledge is in the memory of this process and is lost when it ends; what is added through `gantry serve` is stored.'
const mostFileBytes = 16_777_216

/** The text of an artifact, which is also the default of source and title. */
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
  const issue = { path, message: fault ?? 'is not UTF-8 text' }
  throw new ToolError('INPUT_INVALID', `The file ${issue.message}.`, { details: { issues: [issue] } })
}

function textOf(content: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(content)
  } catch {
    return undefined
  }
}

async function search(knowledge: Knowledge, args: JsonObject, context: BackendContext): Promise<object> {
  const query: KnowledgeQuery = {
    query: textIn(args.query) ?? '',
    limit: numberIn(args.limit),
    tags: textsIn(args.tags),
    source: textIn(args.source),
    cursor: textIn(args.cursor),
  }
  const { warning, ...page } = await knowledge.search(query, context.identity.tenant, context.signal)
  warn(warning, context)
  if (page.items.length === 0 && !knowledge.lasting) context.log('warn', forgetful)
  return page
}

async function get(knowledge: Knowledge, args: JsonObject, { identity, signal }: BackendContext): Promise<object> {
  const range = { from: numberIn(args.from) ?? 0, limit: numberIn(args.limit) ?? usualChunks }
  return knowledge.get(textIn(args.id) ?? '', range, identity.tenant, signal)
}

const usualChunks = 50

async function remove(knowledge: Knowledge, args: JsonObject, { identity, signal }: BackendContext): Promise<object> {
  const { id, source } = args
  const which = isText(id) ? { id } : { source: textIn(source) ?? '' }
  return { removed: await knowledge.remove(which, identity.tenant, signal) }
}

function warn(warning: Warning | undefined, context: BackendContext): void {
  if (warning !== undefined) context.log('warn', warning.message)
}
