import { dirname, resolve } from 'node:path'
import { type Issue, ToolError } from '@gantry/contract'
import { isComposite, isObject } from '@gantry/contract/internal/json'
import { type Backend, type DefinedTool, type Embedder, http, type Policy, type SecretSource } from '@gantry/core'
import { nearest } from '@gantry/core/internal/search/near'
import { grpc } from '@gantry/grpc'
import { mcp } from '@gantry/mcp'
import { importOpenapi } from '@gantry/openapi'
import { mostDocumentBytes, parseOpenapi } from './openapi-document.ts'
import { isToolError } from './problem.ts'
import { readDataFile, readText } from './read-data.ts'

/** Parts of a configuration that are not data, which only a module can supply. */
export interface LiveParts {
  readonly tools: readonly DefinedTool[]
  readonly policy: Policy | undefined
  readonly secrets: SecretSource | undefined
  readonly knowledge: { readonly embedder?: Embedder }
}

/** Keys that a class instance may have on its prototype, where `Object.keys` does not find them. */
export const liveKeys: readonly string[] = ['tools', 'backends', 'policy', 'secrets']

type Members = { readonly [key: string]: unknown }

/** Separates objects with functions from plain data, and adds their problems to `issues`. */
export function separate(
  content: Members,
  file: string,
  issues: Issue[],
): { data: Members; live: LiveParts; backends: readonly unknown[]; tools: readonly unknown[] } {
  const { tools, backends, policy, secrets, knowledge, ...data } = content
  const fromModule = /\.[mc]?[jt]s$/.test(file)
  /** The parts of a module are used as they are; each checks what it is given. */
  const live = <Part>(value: unknown, method: string): Part | undefined =>
    fromModule && hasMethod(value, method) ? (value as Part) : undefined
  const { embedder, ...kept } = isComposite(knowledge) ? knowledge : {}
  const ofModule = live<Embedder>(embedder, 'embed')
  const parts: LiveParts = {
    tools: fromModule ? toolsOf(tools, issues) : [],
    policy: live<Policy>(policy, 'decide'),
    secrets: live<SecretSource>(secrets, 'get'),
    knowledge: ofModule === undefined ? {} : { embedder: ofModule },
  }
  const rest = {
    ...(policy === undefined || parts.policy !== undefined ? {} : { policy }),
    ...(secrets === undefined || parts.secrets !== undefined ? {} : { secrets }),
    ...(knowledge === undefined ? {} : { knowledge: parts.knowledge.embedder === undefined ? knowledge : kept }),
  }
  return {
    data: { ...data, ...rest },
    live: parts,
    backends: listOf(backends, '/backends', 'must be a list of backends', issues),
    tools: fromModule ? [] : listOf(tools, '/tools', 'must be a list of tool definitions', issues),
  }
}

/** Each tool must come from `defineTool`; the executor checks the rest. */
function toolsOf(tools: unknown, issues: Issue[]): readonly DefinedTool[] {
  const list = listOf(tools, '/tools', 'must be a list of what defineTool returns', issues)
  list.forEach((tool, index) => {
    const defined = isComposite(tool) && 'tool' in tool && 'run' in tool
    if (!defined) issues.push({ path: `/tools/${index}`, message: 'must be what defineTool returns' })
  })
  return list as readonly DefinedTool[]
}

/** Whether a value is a backend object, not data that describes one. */
export function isBackend(value: unknown): value is Backend {
  if (!isComposite(value) || !hasMethod(value, 'call')) return false
  return [value.kind, value.name].every((text) => typeof text === 'string' && text !== '')
}

/** The items of an optional list; each is read once, so that later reads cannot differ. */
function listOf(value: unknown, path: string, message: string, issues: Issue[]): readonly unknown[] {
  if (Array.isArray(value)) return [...value]
  if (value !== undefined) issues.push({ path, message })
  return []
}

function hasMethod(value: unknown, method: string): boolean {
  return isComposite(value) && typeof value[method] === 'function'
}

/** The number of problems of one file that are listed. */
const mostPlaces = 5

type Data = { readonly [key: string]: unknown }

/** The options of a backend; its factory checks them. */
function optionsOf<Options>(data: Data): Options {
  return data as Options
}

/** Factories of backends from data, by kind; each reports problems of its options. */
const kinds: { readonly [kind: string]: (data: Data, file: string) => Promise<Backend> } = {
  mcp: async ({ kind: _, ...options }) => mcp(optionsOf(options)),
  grpc: async ({ kind: _, ...options }, file) => grpc(optionsOf(besideFile(options, file))),
  http: async ({ kind: _, ...options }, file) => http(optionsOf(await withTools(options, file))),
}

/** Returns backend objects as they are, and makes backends of data; adds problems with their paths to `issues`. */
export async function makeBackends(list: readonly unknown[], file: string, issues: Issue[]): Promise<Backend[]> {
  const made: Backend[] = []
  for (const [index, item] of list.entries()) {
    const path = `/backends/${index}`
    const backend = isBackend(item) ? item : await makeBackend(item, file, path, issues)
    if (backend !== undefined) made.push(backend)
  }
  return made
}

async function makeBackend(item: unknown, file: string, path: string, issues: Issue[]): Promise<Backend | undefined> {
  const make = isObject(item) && typeof item.kind === 'string' && Object.hasOwn(kinds, item.kind) && kinds[item.kind]
  if (!make) {
    const kind = isObject(item) && typeof item.kind === 'string' ? item.kind : ''
    const [near] = nearest(kind, Object.keys(kinds), { limit: 1 })
    const hint = near === undefined || kind === '' ? '' : `; did you mean ${near}?`
    const live = /\.[mc]?[jt]s$/.test(file) ? ', unless it is an object with kind, name and a function call' : ''
    issues.push({ path: `${path}/kind`, message: `must be one of ${Object.keys(kinds).join(', ')}${hint}${live}` })
    return undefined
  }
  try {
    return await make(item, file)
  } catch (error) {
    if (!isToolError(error)) throw error
    const found = error.details?.issues ?? []
    if (found.length === 0) issues.push({ path, message: error.message })
    for (const issue of found) issues.push({ ...issue, path: `${path}${issue.path}` })
    return undefined
  }
}

/**
 * The tools of an HTTP backend can be in a file, as `gantry import openapi` writes it, or in an OpenAPI document.
 * Options of the backend override those of the file, so its `auth` is sent with every tool.
 */
async function withTools(options: Data, file: string): Promise<Data> {
  const { tools, openapi, ...rest } = options
  if (openapi !== undefined && tools !== undefined) {
    throw wrong('/openapi', 'replaces tools; give only one of them')
  }
  if (openapi === undefined && typeof tools !== 'string') return options
  const found = openapi === undefined ? await writtenTools(tools, file) : await documentTools(openapi, rest, file)
  const { kind: _, ...backend } = found.backend
  return { ...backend, ...rest, tools: rest.auth === undefined ? found.tools : found.tools.map(withoutAuth) }
}

interface FoundTools {
  readonly backend: Data
  readonly tools: readonly unknown[]
}

function documentTools(name: unknown, { name: namespace, baseUrl, origins }: Data, file: string): Promise<FoundTools> {
  return fromFile('/openapi', name, file, async (path) => {
    const document = await parseOpenapi(path, readText(path, mostDocumentBytes))
    const { tools, backend } = importOpenapi(document, {
      name: String(namespace),
      ...(typeof baseUrl === 'string' ? { baseUrl } : {}),
      ...(Array.isArray(origins) ? { origins: origins as string[] } : {}),
    })
    return { tools, backend: { ...backend } }
  })
}

async function writtenTools(name: unknown, file: string): Promise<FoundTools> {
  const written = await fromFile('/tools', name, file, (path) => readDataFile(path, mostDocumentBytes))
  if (!isObject(written) || !Array.isArray(written.tools)) throw wrong('/tools', 'names a file without a list of tools')
  return { backend: isObject(written.backend) ? written.backend : {}, tools: written.tools }
}

/** Reads the file that a key names; problems of the file are reported at that key. */
async function fromFile<T>(key: string, name: unknown, file: string, read: (path: string) => Promise<T>): Promise<T> {
  if (typeof name !== 'string' || name === '') throw wrong(key, 'must name a file')
  const path = resolve(dirname(file), name)
  try {
    return await read(path)
  } catch (error) {
    if (!isToolError(error)) throw error
    const { code, message, details } = error
    if (code === 'CONFIG_INVALID' && details?.file !== path) throw error
    const system = error.cause instanceof Error && 'code' in error.cause ? ` (${error.cause.code})` : ''
    const places = (details?.issues ?? []).filter((issue) => issue.message !== message).slice(0, mostPlaces)
    const where = places.map((place) => ` ${place.path} ${place.message}`.trimEnd()).join(';')
    throw wrong(key, `names a file that cannot be used: ${message}${system}${where}`)
  }
}

/** The tool without `auth` in its bindings. A value that is no tool is returned for the backend to refuse. */
function withoutAuth(tool: unknown): unknown {
  if (!isObject(tool) || !Array.isArray(tool.backends)) return tool
  const backends = tool.backends.map((binding: unknown) => {
    if (!isObject(binding)) return binding
    const { auth: _, ...rest } = binding
    return rest
  })
  return { ...tool, backends }
}

/** Resolves the files of a gRPC backend from the folder of the configuration. */
function besideFile(options: Data, file: string): Data {
  const beside = (value: unknown): unknown => (typeof value === 'string' ? resolve(dirname(file), value) : value)
  const all = (value: unknown): unknown => (Array.isArray(value) ? value.map(beside) : beside(value))
  return {
    ...options,
    ...(options.proto === undefined ? {} : { proto: all(options.proto) }),
    ...(options.includeDirs === undefined ? {} : { includeDirs: all(options.includeDirs) }),
  }
}

function wrong(path: string, message: string): ToolError {
  return new ToolError('CONFIG_INVALID', `${path} ${message}.`, { details: { issues: [{ path, message }] } })
}
