import type { Issue, JsonObject } from '@gantry/contract'
import type { Backend } from '@gantry/core'
import { type BuiltinOptions, builtinTools, createExecutor, type ExecutorOptions } from '@gantry/tools'
import { isToolError } from './problem.ts'

/** Parts of a configuration that the executor reads itself. */
const parts = ['policy', 'egress', 'runtimes'] as const

/**
 * What an executor finds wrong with the parts that it reads itself, each tried alone, so that one mistake hides no other.
 * A part of which something is known to be wrong already is left alone.
 */
export async function partIssues(
  document: JsonObject,
  backends: readonly Backend[],
  known: readonly Issue[],
): Promise<Issue[]> {
  const isSound = (key: string): boolean =>
    document[key] !== undefined && !known.some(({ path }) => `${path}/`.startsWith(`/${key}/`))
  const found: Issue[] = []
  for (const key of parts) {
    if (isSound(key)) found.push(...(await trial(`/${key}`, { [key]: document[key] })))
  }
  if (isSound('profiles')) {
    const runtimes = { profiles: document.profiles } as NonNullable<ExecutorOptions['runtimes']>
    const issues = await trial('/runtimes', { runtimes })
    found.push(...issues.map((issue) => ({ ...issue, path: issue.path.replace(/^\/runtimes/, '') })))
  }
  for (const key of ['sandboxNetwork', 'httpFetch'] as const) {
    if (isSound(key)) found.push(...builtinIssues(key, { [key]: document[key] }))
  }
  const standIns = backends.map(standIn)
  if (standIns.length > 1) found.push(...(await trial('/backends', { backends: standIns })))
  if (isSound('safeguards')) found.push(...(await safeguardIssues(document.safeguards as JsonObject, standIns)))
  return found
}

/** What the tools that ship with Gantry find wrong with what they are given. */
function builtinIssues(key: keyof BuiltinOptions, options: BuiltinOptions): readonly Issue[] {
  try {
    builtinTools(options)
    return []
  } catch (error) {
    if (!isToolError(error)) throw error
    return error.details?.issues ?? [{ path: `/${key}`, message: error.message }]
  }
}

/** A name without anything behind it: a trial must not attach the real backends, which is done once. */
function standIn({ kind, name }: Pick<Backend, 'kind' | 'name'>): Backend {
  return { kind, name, call: () => undefined }
}

/** Each safeguard by itself, and each of each backend, because what checks them does not know where they stand. */
async function safeguardIssues(
  { backends: own = {}, ...common }: JsonObject,
  list: readonly Backend[],
): Promise<Issue[]> {
  const unique = [...new Map(list.map((backend) => [`${backend.kind}:${backend.name}`, backend])).values()]
  const backends = unique.length > 0 ? unique : [standIn({ kind: 'any', name: 'any' })]
  const tryAll = async (at: string, given: unknown, place: (options: object) => object): Promise<readonly Issue[]> => {
    if (!isObject(given)) return [{ path: at, message: 'must be an object' }]
    const whole = await trial(at, { safeguards: place({}), backends })
    if (whole.length > 0) return whole
    const found: Issue[] = []
    for (const [key, value] of Object.entries(given)) {
      found.push(...(await trial(`${at}/${key}`, { safeguards: place({ [key]: value }), backends })))
    }
    return found
  }
  const found = [...(await tryAll('/safeguards', common, (options) => options))]
  if (!isObject(own)) return [...found, { path: '/safeguards/backends', message: 'must be an object' }]
  for (const [key, options] of Object.entries(own)) {
    found.push(...(await tryAll(`/safeguards/backends/${key}`, options, (one) => ({ backends: { [key]: one } }))))
  }
  return found
}

/** Makes an executor of these options only; a path that does not begin at the top is read from `at`. */
async function trial(at: string, options: ExecutorOptions): Promise<readonly Issue[]> {
  try {
    await createExecutor(options).close()
    return []
  } catch (error) {
    if (!isToolError(error)) throw error
    const issues = error.details?.issues ?? []
    const top = `/${at.split('/')[1]}`
    if (issues.length === 0) return [{ path: at, message: error.message }]
    return issues.map((issue) =>
      `${issue.path}/`.startsWith(`${top}/`) ? issue : { ...issue, path: `${at}${issue.path}` },
    )
  }
}

function isObject(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
