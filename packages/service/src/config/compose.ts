import { dirname, join, resolve } from 'node:path'
import type { Issue, Json, JsonObject } from '@gantry/contract'
import { type Backend, createEgress, type DefinedTool, defineTool, type EgressAllow, filePins } from '@gantry/core'
import { toolMatcher } from '@gantry/core/internal/ids/tool-pattern'
import { copyJson } from '@gantry/core/internal/json/copy'
import { JsonError } from '@gantry/core/internal/json/limits'
import {
  type BuiltinOptions,
  builtinTools,
  createExecutor,
  type ExecutorOptions,
  type SandboxNetworkOptions,
  type WebOptions,
} from '@gantry/tools'
import { authenticationIssues } from './authentication-settings.ts'
import { brokerIssues } from './broker-settings.ts'
import { checkCallback } from './callback-target.ts'
import type { ConfigRequest, LoadedConfig } from './config.ts'
import { makeBackends } from './data-backends.ts'
import { type Overrides, override, wrongEnvironment } from './environment.ts'
import { liveKeys, separate } from './live-parts.ts'
import { configError, isToolError, throwingValue } from './problem.ts'
import { configIssues } from './schema.ts'
import { secretSources, storeOptions } from './secret-sources.ts'
import { addressIssues, dataFolder, serviceSettings, withoutService } from './service-settings.ts'
import { tenantsOf } from './tenant-limits.ts'
import { openToolsFolder } from './tools-folder.ts'

/** Checks what a file said together with the environment, and makes executor options of it; lists all that is wrong. */
export async function composeConfig(
  file: string,
  said: unknown,
  overrides: Overrides,
  request: Omit<ConfigRequest, 'file'>,
): Promise<Omit<LoadedConfig, 'warnings'>> {
  const { environment, signal } = request
  if (typeof said !== 'object' || said === null || Array.isArray(said)) {
    throw configError(file, `The configuration ${file} must be an object.`, [])
  }
  const issues: Issue[] = [...overrides.issues]
  const { data, live, ...lists } = separate(membersOf(said, file), file, issues)
  const document = override(plain(data, issues), overrides)
  issues.push(...configIssues(document), ...brokerIssues(document))
  issues.push(...authenticationIssues(document, dirname(file)), ...tenantIssues(document), ...addressIssues(document))
  const backends = await makeBackends(lists.backends, file, issues)
  const tools = [...live.tools, ...dataTools(lists.tools, issues)]
  issues.push(...(await partIssues(document, backends, issues)))
  issues.push(...(await callbackIssues(document, issues)))
  if (issues.length > 0) throw configError(file, problemText(file, issues.length, overrides), issues)
  const {
    demo,
    builtins,
    toolsFolder: named,
    sandboxNetwork,
    httpFetch,
    knowledge,
    $schema: _schema,
    secrets,
    secretStore,
    pins,
    profiles,
    runtimes,
    ...rest
  } = document
  const options = withoutService(rest)
  const folder = dirname(file)
  const place = dataFolder(folder, environment)
  const store = storeOptions(secretStore, folder, place, environment)
  const sources = secretSources({ secrets, store, folder, environment })
  const toolsFolder = await openToolsFolder(named, {
    ...{ folder, tools, backends, signal, fresh: request.fresh === true },
    memory: request.folderMemory,
  })
  const all = [...tools, ...(toolsFolder?.tools ?? [])]
  return {
    file,
    data: place,
    ...(toolsFolder === undefined ? {} : { toolsFolder }),
    ...(store === undefined ? {} : { secretStore: store }),
    service: serviceSettings(document, place, folder),
    builtins: builtins !== false,
    builtinOptions: {
      ...(sandboxNetwork === undefined ? {} : { sandboxNetwork: sandboxNetwork as SandboxNetworkOptions }),
      ...(httpFetch === undefined ? {} : { httpFetch: httpFetch as WebOptions }),
    },
    knowledge: { ...(knowledge as LoadedConfig['knowledge']), ...live.knowledge },
    demo: demo === true,
    options: {
      ...options,
      runtimes: runtimeOptions({ runtimes, profiles }, folder, environment),
      pins: filePins(typeof pins === 'string' ? resolve(folder, pins) : join(place, 'pins.json')),
      ...(sources === undefined ? {} : { secrets: sources }),
      ...(all.length === 0 ? {} : { tools: all }),
      ...(backends.length === 0 ? {} : { backends }),
      ...(live.policy === undefined ? {} : { policy: live.policy }),
      ...(live.secrets === undefined ? {} : { secrets: live.secrets }),
    },
  }
}

/** Reads each key once, so that one that throws can be named; keys of a class count where we know them. */
function membersOf(said: object, file: string): { readonly [key: string]: unknown } {
  const keys = new Set([...Object.keys(said), ...liveKeys])
  const entries = [...keys].map((key) => {
    try {
      return [key, said[key as keyof typeof said] as unknown] as const
    } catch (error) {
      throw throwingValue(file, `/${key}`, error)
    }
  })
  return Object.fromEntries(entries)
}

/** A file is not blamed for what the environment alone got wrong. */
function problemText(file: string, count: number, overrides: Overrides): string {
  if (count === overrides.issues.length) return wrongEnvironment
  return `The configuration ${file} has ${count === 1 ? 'a problem' : `${count} problems`}.`
}

function plain(data: object, issues: Issue[]): JsonObject {
  try {
    return copyJson(data) as JsonObject
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    issues.push({ path: error.path, message: error.message })
    return {}
  }
}

/** Tools of a JSON or YAML file: definitions without a function, which run at the backends that they name. */
export function dataTools(list: readonly unknown[], issues: Issue[]): readonly DefinedTool[] {
  return list.flatMap((definition, index) => {
    try {
      return [defineTool(definition as Parameters<typeof defineTool>[0])]
    } catch (error) {
      if (!isToolError(error)) throw error
      issues.push({ path: `/tools/${index}`, message: error.message })
      return []
    }
  })
}

/** What is wrong with the tenants of a configuration besides what the schema says. */
export function tenantIssues({ tenants }: JsonObject): Issue[] {
  const issues: Issue[] = []
  for (const [tenant, settings] of Object.entries(tenantsOf(tenants))) {
    const at = `/tenants/${tenant.replaceAll('~', '~0').replaceAll('/', '~1')}/tools`
    if (Array.isArray(settings?.tools) && settings.tools.length > 0) toolMatcher(settings.tools, at, issues)
  }
  return issues
}

/**
 * What is wrong with where callbacks go, besides what the schema says: origins that are none, and callbacks of tenants that
 * would be refused with every call. What is known to be wrong already is left alone.
 */
export async function callbackIssues(document: JsonObject, known: readonly Issue[]): Promise<Issue[]> {
  const { callbackOrigins: origins, callbacks = {} } = (document.service ?? {}) as Settings
  const isWrong = (at: string): boolean =>
    known.some(({ path }) => `${path}/`.startsWith(`${at}/`) || path === '/egress')
  if (['/service/callbackOrigins', '/service/callbacks', '/egress/allow'].some(isWrong)) return []
  if (origins !== undefined) {
    const issues = ruleIssues(origins)
    if (issues.length > 0) return issues
  }
  const { allow } = (document.egress ?? {}) as { readonly allow?: EgressAllow }
  const egress = createEgress(allow === undefined ? {} : { allow })
  const found: Issue[] = []
  for (const [tenant, url] of Object.entries(callbacks)) {
    const path = `/service/callbacks/${tenant.replaceAll('~', '~0').replaceAll('/', '~1')}`
    await checkCallback(url, origins, egress).catch((error: unknown) => {
      if (!isToolError(error)) throw error
      found.push({ path, message: error.message })
    })
  }
  await egress.close()
  return found
}

interface Settings {
  readonly callbackOrigins?: EgressAllow
  readonly callbacks?: { readonly [tenant: string]: string }
}

function ruleIssues(allow: EgressAllow): Issue[] {
  try {
    createEgress({ allow })
    return []
  } catch (error) {
    if (!isToolError(error)) throw error
    const issues = error.details?.issues ?? [{ path: '', message: error.message }]
    return issues.map((issue) => ({
      ...issue,
      path: `/service/callbackOrigins${issue.path.replace(/^\/egress\/allow/, '')}`,
    }))
  }
}

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

type RuntimeOptions = NonNullable<ExecutorOptions['runtimes']>

/** Where sandboxes live and how strong they are: the file's `runtimes` and `profiles`, the environment over them. */
export function runtimeOptions(
  { runtimes, profiles }: { readonly runtimes?: Json | undefined; readonly profiles?: Json | undefined },
  folder: string,
  { SANDBOX_ROOT: root }: NodeJS.ProcessEnv,
): RuntimeOptions {
  const given = (runtimes ?? {}) as { readonly root?: string }
  const named = root || given.root
  return {
    ...given,
    ...(profiles === undefined ? {} : { profiles }),
    ...(named === undefined ? {} : { root: resolve(folder, named) }),
  } as RuntimeOptions
}
