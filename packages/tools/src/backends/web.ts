import type { Backend, BackendCall, BackendHost } from '@gantry/core/internal/backends/backend'
import { readBinding, type WebPlan } from '../web/binding.ts'

/**
 * Fetches what a caller names, as far as the guard and the binding of the tool allow it.
 * - Concurrency: any number of calls; they share nothing but the guard's connections.
 * - Cancellation: the request, or the reading of its answer, ends with the call's signal.
 * - Errors: INPUT_INVALID for arguments that cannot be sent, DENIED for a secret that may not go there, and what the
 *   guard says. An answer is an answer whatever its status, which is part of the output.
 * - Ownership: secrets are asked for once a call and not kept.
 */
export function webBackend(): Backend {
  const plans = new WeakMap<object, WebPlan>()
  let host: BackendHost | undefined
  const planOf = ({ binding, tool }: BackendCall): WebPlan => {
    const known = plans.get(binding)
    if (known !== undefined) return known
    const plan = readBinding(binding, tool)
    plans.set(binding, plan)
    return plan
  }
  return {
    kind: 'web',
    name: 'web',
    builtin: true,
    enforces: ['egress'],
    tidy: true,
    attach(given) {
      host = given
    },
    check: (binding, tool) => void readBinding(binding, tool),
    origin: ({ url }) => (typeof url === 'string' && URL.canParse(url) ? new URL(url).origin : undefined),
    // It is a part of this process.
    health: async () => ({ status: 'up' }),
    async call(call, context) {
      // Loaded with the first fetch, so that others start faster.
      const { fetchOnce } = await import('../web/fetch.ts')
      return fetchOnce(call, planOf(call), host, context)
    },
  }
}
