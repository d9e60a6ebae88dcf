import { type BackendBinding, ToolError } from '@gantry/contract'
import type { Backend, Health } from '../backends/backend.ts'
import { didYouMean } from '../search/index.ts'

/** A backend as its operator sees it. */
export interface BackendInfo {
  /** As a call's `backend` option names it: `http:github`, or `local`. */
  readonly key: string
  readonly kind: string
  readonly name: string
  readonly enabled: boolean
}

/**
 * The backends of an executor. A call finds its backend when it runs, so that one can be taken out of service and put
 * back without touching the tools; calls that already run there go on.
 */
export interface BackendRegistry {
  /** The backend that a binding means, in service or not. */
  find(binding: BackendBinding): Backend | undefined
  isEnabled(backend: Backend): boolean
  /** Throws NO_BACKEND for a key that is not registered. */
  enable(key: string): void
  disable(key: string): void
  list(): readonly BackendInfo[]
  all(): readonly Backend[]
  /** Throws CONFIG_INVALID when there is one of this key. */
  add(backend: Backend): BackendInfo
  /** Takes a backend out for good, by its key or its name; calls that run there go on. Throws NO_BACKEND. */
  remove(name: string): Backend
  /**
   * Asks every backend, or one; a backend that cannot be asked is `unknown`. Never rejects for what a backend does;
   * `shown` takes secrets out of what it says.
   */
  health(
    signal: AbortSignal,
    shown: (backend: Backend, text: string) => string,
    key?: string,
  ): Promise<readonly (BackendInfo & Health)[]>
}

/** Key of a backend among the executor's; the only one of its kind may go without a name of its own. */
export function backendKey(kind: string, name: string | undefined): string {
  return name === undefined || name === kind ? kind : `${kind}:${name}`
}

export function createBackendRegistry(list: readonly Backend[]): BackendRegistry {
  const backends = new Map<string, Backend>()
  const disabled = new Set<Backend>()
  const put = (backend: Backend): void => {
    const key = backendKey(backend.kind, backend.name)
    if (backends.has(key)) throw new ToolError('CONFIG_INVALID', `Two backends are called ${key}.`)
    backends.set(key, backend)
  }
  for (const backend of list) put(backend)
  const named = (key: string): Backend => {
    const backend = backends.get(key)
    if (backend !== undefined) return backend
    throw new ToolError('NO_BACKEND', `There is no backend ${key}${didYouMean(key, backends.keys())}.`)
  }
  const info = (backend: Backend): BackendInfo => {
    const { kind, name } = backend
    return { key: backendKey(kind, name), kind, name, enabled: !disabled.has(backend) }
  }
  return {
    find({ kind, name }) {
      const exact = backends.get(backendKey(kind, name))
      if (exact !== undefined || name !== undefined) return exact
      const alike = [...backends.values()].filter((backend) => backend.kind === kind)
      return alike.length === 1 ? alike[0] : undefined
    },
    isEnabled: (backend) => disabled.size === 0 || !disabled.has(backend),
    enable: (key) => void disabled.delete(named(key)),
    disable: (key) => void disabled.add(named(key)),
    list: () => [...backends.values()].map(info),
    all: () => [...backends.values()],
    add(backend) {
      put(backend)
      return info(backend)
    },
    remove(name) {
      const alike = [...backends.values()].filter((backend) => backend.name === name)
      const backend = backends.get(name) ?? (alike.length === 1 ? alike[0] : undefined) ?? named(name)
      backends.delete(backendKey(backend.kind, backend.name))
      disabled.delete(backend)
      return backend
    },
    async health(signal, shown, key) {
      const asked = key === undefined ? [...backends.values()] : [named(key)]
      return Promise.all(
        asked.map(async (backend) => {
          const { status, message } = await healthOf(backend, signal)
          return { ...info(backend), status, ...(message === undefined ? {} : { message: shown(backend, message) }) }
        }),
      )
    },
  }
}

async function healthOf(backend: Backend, signal: AbortSignal): Promise<Health> {
  if (backend.health === undefined) return { status: 'unknown' }
  try {
    return await backend.health(signal)
  } catch (error) {
    return { status: 'down', message: error instanceof Error ? error.message : 'it could not be asked' }
  }
}
