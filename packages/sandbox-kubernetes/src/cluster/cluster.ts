import { ToolError } from '@gantry/contract'
import { follow } from '@gantry/core/internal/resilience/abort'
import {
  ApiException,
  type ConfigurationOptions,
  CoreV1Api,
  CustomObjectsApi,
  KubeConfig,
  Observable,
  type RequestContext,
  type ResponseContext,
  type V1Pod,
  VersionApi,
  Watch,
} from '@kubernetes/client-node'
import { isAbsent } from './absent-object.ts'
import type { ClusterOptions } from './cluster-options.ts'
import { type ExecStream, openExec } from './exec-stream.ts'

/**
 * A cluster by its API.
 * - Cancellation: every request takes a signal, and gives up by itself after 15 s.
 * - Errors: RUNTIME_UNAVAILABLE with reason and remedy when the API cannot be reached or refuses what sandboxes need.
 */
export interface Cluster {
  readonly namespace: string
  /** The URL of the API. */
  readonly address: string
  version(signal: AbortSignal): Promise<string>
  /** Creates a pod; `quota` is true in the details of a refusal by a quota. */
  createPod(pod: V1Pod, signal: AbortSignal): Promise<V1Pod>
  /** Undefined when there is none. */
  readPod(name: string, signal: AbortSignal): Promise<V1Pod | undefined>
  /** Kills the pod's processes and removes it at once; false when there was none. */
  deletePod(name: string, signal: AbortSignal): Promise<boolean>
  listPods(selector: string, signal: AbortSignal): Promise<readonly V1Pod[]>
  /** What a container of the pod has written, at most 64 KiB. */
  readLog(name: string, signal: AbortSignal): Promise<string>
  /** Starts a program in a pod and connects to its streams. */
  exec(pod: string, container: string, command: readonly string[], signal: AbortSignal): Promise<ExecStream>
  /** Calls back with every change of such pods until the signal aborts; reconnects by itself. */
  watchPods(selector: string, onChange: (pod: V1Pod, isDeleted: boolean) => void, signal: AbortSignal): void
  /** Resources of a group, such as agent-sandbox's. */
  readonly resources: Resources
}

/** Objects of an API group, in the cluster's namespace. What they hold is the cluster's, and is not believed. */
export interface Resources {
  create(kind: ResourceKind, body: object, signal: AbortSignal): Promise<object>
  /** Applies a JSON patch; undefined when there is no such object. */
  patch(kind: ResourceKind, name: string, body: readonly object[], signal: AbortSignal): Promise<object | undefined>
  read(kind: ResourceKind, name: string, signal: AbortSignal): Promise<object | undefined>
  remove(kind: ResourceKind, name: string, signal: AbortSignal): Promise<boolean>
  list(kind: ResourceKind, selector: string, signal: AbortSignal): Promise<readonly object[]>
  /** As `watchPods`. */
  watch(
    kind: ResourceKind,
    selector: string,
    onChange: (value: object, isDeleted: boolean) => void,
    signal: AbortSignal,
  ): void
}

export interface ResourceKind {
  readonly group: string
  readonly version: string
  readonly plural: string
}

const requestMs = 15_000
const logBytes = 65_536
/** A watch that ends is opened again after this. */
const watchAgainMs = 250

/** Reads the configuration of a cluster; throws CONFIG_INVALID when there is none. Sends nothing. */
export function openCluster(options: ClusterOptions): Cluster {
  const config = readConfig(options)
  const address = config.getCurrentCluster()?.server ?? ''
  const current = config.getContextObject(config.getCurrentContext())
  const namespace = options.namespace ?? current?.namespace ?? 'default'
  const core = config.makeApiClient(CoreV1Api)
  const custom = config.makeApiClient(CustomObjectsApi)
  const versions = config.makeApiClient(VersionApi)

  const ask = async <T>(
    what: string,
    given: AbortSignal,
    send: (options: RequestOptions) => Promise<T>,
  ): Promise<T> => {
    const { signal, leave } = follow(given, AbortSignal.timeout(requestMs))
    try {
      return await send(cancelledBy(signal))
    } catch (error) {
      given.throwIfAborted()
      throw refusalOf(error, what, address)
    } finally {
      leave()
    }
  }
  /** Undefined for an object that is not there. */
  const find = async <T>(
    what: string,
    given: AbortSignal,
    send: (options: RequestOptions) => Promise<T>,
  ): Promise<T | undefined> => {
    try {
      return await ask(what, given, send)
    } catch (error) {
      if (isAbsent(error)) return undefined
      throw error
    }
  }
  return {
    namespace,
    address,
    version: (signal) => ask('read its version', signal, async (own) => (await versions.getCode({}, own)).gitVersion),
    createPod: (body, signal) =>
      ask('create a pod', signal, (own) => core.createNamespacedPod({ namespace, body }, own)),
    readPod: (name, signal) => find('read a pod', signal, (own) => core.readNamespacedPod({ namespace, name }, own)),
    async deletePod(name, signal) {
      const request = { namespace, name, gracePeriodSeconds: 0 }
      return (await find('delete a pod', signal, (own) => core.deleteNamespacedPod(request, own))) !== undefined
    },
    listPods: (labelSelector, signal) =>
      ask('list pods', signal, async (own) => (await core.listNamespacedPod({ namespace, labelSelector }, own)).items),
    readLog: (name, signal) =>
      ask('read the log of a pod', signal, async (own) =>
        String(await core.readNamespacedPodLog({ namespace, name, limitBytes: logBytes }, own)),
      ),
    async exec(pod, container, command, signal) {
      try {
        return await openExec(config, { namespace, pod, container, command }, signal)
      } catch (error) {
        signal.throwIfAborted()
        throw refusalOf(error, 'start a program in a pod', address)
      }
    },
    watchPods: (labelSelector, onChange, signal) =>
      void watchAll(new Watch(config), `/api/v1/namespaces/${namespace}/pods`, labelSelector, onChange, signal),
    resources: {
      create: (kind, body, signal) =>
        ask(`create ${kind.plural}`, signal, (own) =>
          custom.createNamespacedCustomObject({ ...kind, namespace, body }, own),
        ),
      patch: (kind, name, body, signal) =>
        find(`change ${kind.plural}`, signal, (own) =>
          custom.patchNamespacedCustomObject({ ...kind, namespace, name, body }, own),
        ),
      read: (kind, name, signal) =>
        find(`read ${kind.plural}`, signal, (own) =>
          custom.getNamespacedCustomObject({ ...kind, namespace, name }, own),
        ),
      async remove(kind, name, signal) {
        const request = { ...kind, namespace, name }
        const done = await find(`delete ${kind.plural}`, signal, (own) =>
          custom.deleteNamespacedCustomObject(request, own),
        )
        return done !== undefined
      },
      list: (kind, labelSelector, signal) =>
        ask(`list ${kind.plural}`, signal, async (own) => {
          const { items = [] } = await custom.listNamespacedCustomObject({ ...kind, namespace, labelSelector }, own)
          return items
        }),
      watch: ({ group, version, plural }, labelSelector, onChange, signal) => {
        const path = `/apis/${group}/${version}/namespaces/${namespace}/${plural}`
        void watchAll(new Watch(config), path, labelSelector, onChange, signal)
      },
    },
  }
}

function readConfig({ kubeconfig, context }: ClusterOptions): KubeConfig {
  const config = new KubeConfig()
  try {
    if (kubeconfig === undefined) config.loadFromDefault()
    else config.loadFromFile(kubeconfig)
    if (context !== undefined) config.setCurrentContext(context)
  } catch (cause) {
    throw wrongConfig(`${kubeconfig ?? 'the default kubeconfig'} cannot be read`, 'kubeconfig', cause)
  }
  if (config.getCurrentCluster() === null) {
    const where = context === undefined ? 'no current context with a cluster' : `no context ${JSON.stringify(context)}`
    throw wrongConfig(
      `${kubeconfig ?? 'The default kubeconfig'} has ${where}`,
      context === undefined ? 'kubeconfig' : 'context',
    )
  }
  return config
}

function wrongConfig(reason: string, member: string, cause?: unknown): ToolError {
  const issues = [{ path: `/runtimes/kubernetes/${member}`, message: reason }]
  const remedy = 'Name a kubeconfig file in runtimes.kubernetes.kubeconfig.'
  return new ToolError('RUNTIME_UNAVAILABLE', `${reason}. ${remedy}`, {
    details: { reason: `${reason}.`, remedy, issues },
    ...(cause === undefined ? {} : { cause }),
  })
}

type RequestOptions = ConfigurationOptions

/** The client has no other way to hand a signal to a request. */
function cancelledBy(signal: AbortSignal): RequestOptions {
  const pre = (request: RequestContext): Observable<RequestContext> => {
    request.setSignal(signal)
    return new Observable(Promise.resolve(request))
  }
  const post = (response: ResponseContext): Observable<ResponseContext> => new Observable(Promise.resolve(response))
  return { middleware: [{ pre, post }], middlewareMergeStrategy: 'append' }
}

/** The `Status` of an answer of the API. */
interface ApiStatus {
  readonly reason?: string
  readonly message?: string
}

function refusalOf(error: unknown, what: string, address: string): ToolError {
  if (ToolError.is(error)) return error
  if (!(error instanceof ApiException)) {
    const reason = `The Kubernetes API at ${address} cannot be reached.`
    return unavailable(reason, 'Start the cluster, or correct runtimes.kubernetes.kubeconfig.', { cause: error })
  }
  const { reason = '', message = '' } = statusOf(error)
  const said = message === '' ? `${error.code} ${reason}` : message
  const details = { status: error.code }
  if (error.code === 401) {
    const remedy = 'Renew the credential in the kubeconfig, or the account of the pod.'
    return unavailable(`The Kubernetes API at ${address} does not accept the credential.`, remedy, {
      cause: error,
      details,
    })
  }
  if (/exceeded quota/.test(said)) {
    const remedy = 'Raise the ResourceQuota of the namespace, or lower the limits of the call.'
    return unavailable(`The quota of the namespace is used up: ${said}`, remedy, {
      cause: error,
      details: { ...details, quota: true },
    })
  }
  if (error.code === 403) {
    const remedy = 'Bind the role of docs/runtimes/kubernetes.md to the account, or name another namespace.'
    return unavailable(`The Kubernetes API does not allow to ${what}: ${said}`, remedy, { cause: error, details })
  }
  return unavailable(`Kubernetes could not ${what}: ${said}`, 'Correct that, then run `gantry doctor`.', {
    cause: error,
    details,
  })
}

function unavailable(
  reason: string,
  remedy: string,
  { cause, details = {} }: { readonly cause?: unknown; readonly details?: object },
): ToolError {
  const all = { ...details, reason, remedy }
  return new ToolError('RUNTIME_UNAVAILABLE', `${reason} ${remedy}`, { details: all, cause })
}

function statusOf({ body }: ApiException<unknown>): ApiStatus {
  try {
    const status: unknown = typeof body === 'string' ? JSON.parse(body) : body
    return typeof status === 'object' && status !== null ? status : {}
  } catch {
    return {}
  }
}

/** Opens the watch again whenever it ends, because the API ends each after some minutes. */
async function watchAll<T>(
  watch: Watch,
  path: string,
  labelSelector: string,
  onChange: (value: T, isDeleted: boolean) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const ended = Promise.withResolvers<void>()
    const request = watch.watch(
      path,
      { labelSelector },
      (phase: string, value: T) => onChange(value, phase === 'DELETED'),
      () => ended.resolve(),
    )
    const controller = await request.catch(() => undefined)
    const stop = (): void => {
      controller?.abort()
      ended.resolve()
    }
    signal.addEventListener('abort', stop, { once: true })
    if (controller === undefined) ended.resolve()
    await ended.promise
    signal.removeEventListener('abort', stop)
    if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, watchAgainMs).unref())
  }
}
