import { dirname, resolve } from 'node:path'
import { type Issue, ToolError } from '@gantry/contract'
import { type Backend, grpc, http, mcp, nearest } from '@gantry/core'
import { importOpenapi } from '@gantry/core/openapi'
import { isBackend } from './live-parts.ts'
import { mostDocumentBytes, parseOpenapi } from './openapi-document.ts'
import { isToolError } from './problem.ts'
import { readDataFile, readText } from './read-data.ts'

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

/** The tools of an HTTP backend may be in a file, as `gantry import openapi` writes it, or in an OpenAPI document. */
async function withTools(options: Data, file: string): Promise<Data> {
  const { tools, openapi, ...rest } = options
  if (openapi !== undefined) {
    if (tools !== undefined) throw wrong('/openapi', 'stands for tools, so only one of them may be there')
    const { tools: imported, backend } = importOpenapi(await readDocument(openapi, file), {
      name: String(rest.name),
      ...(typeof rest.baseUrl === 'string' ? { baseUrl: rest.baseUrl } : {}),
    })
    const { kind: _, ...found } = backend
    return { ...found, ...rest, tools: imported }
  }
  if (typeof tools !== 'string') return options
  const written = await readBeside(tools, '/tools', file)
  if (!isData(written) || !Array.isArray(written.tools)) throw wrong('/tools', 'names a file without a list of tools')
  const { kind: _, ...found } = isData(written.backend) ? written.backend : { kind: 'http' }
  return { ...found, ...rest, tools: written.tools }
}

async function readDocument(name: unknown, file: string): Promise<unknown> {
  if (typeof name !== 'string' || name === '') throw wrong('/openapi', 'must name a file')
  const path = resolve(dirname(file), name)
  return parseOpenapi(path, readText(path, mostDocumentBytes))
}

async function readBeside(name: unknown, path: string, file: string): Promise<unknown> {
  if (typeof name !== 'string' || name === '') throw wrong(path, 'must name a file')
  return readDataFile(resolve(dirname(file), name), 64 * 1_048_576)
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
