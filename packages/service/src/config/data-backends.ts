import { dirname, resolve } from 'node:path'
import { type Issue, ToolError } from '@gantry/contract'
import { type Backend, http } from '@gantry/core'
import { nearest } from '@gantry/core/internal/search/near'
import { grpc } from '@gantry/grpc'
import { mcp } from '@gantry/mcp'
import { importOpenapi } from '@gantry/openapi'
import { isBackend } from './live-parts.ts'
import { mostDocumentBytes, parseOpenapi } from './openapi-document.ts'
import { isToolError } from './problem.ts'
import { readDataFile, readText } from './read-data.ts'

/** Mistakes of one file that are shown. */
const mostPlaces = 5

type Data = { readonly [key: string]: unknown }

/** How a backend is made of data, by its kind; what reads its options names what is wrong with them. */
const kinds: { readonly [kind: string]: (data: Data, file: string) => Promise<Backend> } = {
  mcp: async ({ kind: _, ...options }) => mcp(options as unknown as Parameters<typeof mcp>[0]),
  grpc: async ({ kind: _, ...options }, file) =>
    grpc(besideFile(options, file) as unknown as Parameters<typeof grpc>[0]),
  http: async ({ kind: _, ...options }, file) =>
    http((await withTools(options, file)) as unknown as Parameters<typeof http>[0]),
}

/** Backends that live, as they are, and those that are described by data; all that is wrong is noted with its path. */
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
  const make = isData(item) && typeof item.kind === 'string' && Object.hasOwn(kinds, item.kind) && kinds[item.kind]
  if (!make) {
    const kind = isData(item) && typeof item.kind === 'string' ? item.kind : ''
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
 * The tools of an HTTP backend may be in a file, as `gantry import openapi` writes it, or in an OpenAPI document.
 * What the configuration says of the backend counts more than what stands there, so its `auth` is sent with every tool.
 */
async function withTools(options: Data, file: string): Promise<Data> {
  const { tools, openapi, ...rest } = options
  if (openapi !== undefined && tools !== undefined) {
    throw wrong('/openapi', 'stands for tools, so only one of them may be there')
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
  if (!isData(written) || !Array.isArray(written.tools)) throw wrong('/tools', 'names a file without a list of tools')
  return { backend: isData(written.backend) ? written.backend : {}, tools: written.tools }
}

/** Reads the file that a key names; what is wrong with it is said at that key, except for wrong options beside it. */
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

/** A tool whose bindings say nothing of credentials; what is not even a tool is for the backend to refuse. */
function withoutAuth(tool: unknown): unknown {
  if (!isData(tool) || !Array.isArray(tool.backends)) return tool
  const backends = tool.backends.map((binding: unknown) => {
    if (!isData(binding)) return binding
    const { auth: _, ...rest } = binding
    return rest
  })
  return { ...tool, backends }
}

/** Files that a gRPC backend names stand beside the configuration. */
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

function isData(value: unknown): value is Data {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
