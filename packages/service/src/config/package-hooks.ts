import { registerHooks } from 'node:module'

const ours = /^(?:gantry|@gantry\/[a-z-]+)(?:\/|$)/

/** Lets a configuration anywhere on disk import this installation's packages when it has none of its own. */
export function resolveOurPackages(): void {
  registerHooks({
    resolve(specifier, context, next) {
      if (!ours.test(specifier)) return next(specifier, context)
      try {
        return next(specifier, context)
      } catch (error) {
        if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error
        return next(specifier, { ...context, parentURL: import.meta.url })
      }
    },
  })
}
