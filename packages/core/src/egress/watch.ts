import { ToolError } from '@gantry/contract'
import type { Dispatcher, Pool } from 'undici'

/** Under which a request carries its watch, so that a pool can find it. */
export const watchKey: unique symbol = Symbol('watch')

/**
 * Notes when a request begins to be sent, which decides what a failure means, and stops one that waited in a pool
 * while the rules changed. Ends it when no headers come in time: each piece of the request that goes out begins the
 * time anew; interim responses (1xx) do not.
 */
export class Watch {
  sent = false
  readonly #origin: string
  readonly #safe: boolean
  readonly #ms: number
  readonly #retired: AbortSignal
  #timer: NodeJS.Timeout | undefined
  #controller: Dispatcher.DispatchController | undefined

  /** `ms` is the time until headers; 0 for no end. */
  constructor(origin: string, safe: boolean, ms: number, retired: AbortSignal) {
    this.#origin = origin
    this.#safe = safe
    this.#ms = ms
    this.#retired = retired
  }

  /** The handler of a request, with the watch before it. */
  before(handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler {
    return {
      onRequestStart: (controller, context) => {
        if (this.#retired.aborted) return controller.abort(this.#retired.reason)
        this.sent = true
        this.#controller = controller
        this.#begin()
        handler.onRequestStart?.(controller, context)
      },
      onBodySent: (chunk) => {
        this.#begin()
        handler.onBodySent?.(chunk)
      },
      onRequestSent: () => {
        this.#begin()
        handler.onRequestSent?.()
      },
      onResponseStart: (controller, status, headers, text) =>
        handler.onResponseStart?.(controller, status, headers, text),
      onResponseData: (controller, chunk) => handler.onResponseData?.(controller, chunk),
      onResponseEnd: (controller, trailers) => handler.onResponseEnd?.(controller, trailers),
      onResponseError: (controller, error) => handler.onResponseError?.(controller, error),
    }
  }

  end(): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer)
  }

  #begin(): void {
    if (this.#ms === 0) return
    this.end()
    this.#timer = setTimeout(() => this.#giveUp(), this.#ms)
  }

  #giveUp(): void {
    const options = { effect: this.#safe ? 'none' : 'possible', retryable: this.#safe } as const
    const text = `${this.#origin} sent no response within ${this.#ms} ms.`
    this.#controller?.abort(new ToolError('BACKEND_FAILED', text, options))
  }
}

/** A pool that puts the watch of each request before its handler; an interceptor would copy each request's options. */
export function watchedPool(Base: typeof Pool): typeof Pool {
  return class extends Base {
    override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
      const { [watchKey]: watch } = options as { readonly [watchKey]?: Watch }
      return super.dispatch(options, watch === undefined ? handler : watch.before(handler))
    }
  }
}
