import { isObject } from '@gantry/contract/internal/json'
import { type Check, text } from '@gantry/core/internal/options/option'
import { optionsCheck } from '@gantry/core/internal/options/options'
import type { KubernetesOptions } from './drivers/kubernetes.ts'

/** A cluster as configuration says it. */
export type KubernetesSettings = Omit<KubernetesOptions, 'languages'>

/** Sandboxes in a cluster; absent, no such runtime is created. */
export interface KubernetesRuntimesOptions {
  readonly kubernetes?: KubernetesSettings
}

const dnsLabel = {
  type: 'string',
  pattern: '^[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?$',
  maxLength: 253,
  description: 'a name of Kubernetes: small letters, digits, - and .',
}

const settings = optionsCheck<KubernetesSettings>({
  members: {
    kubeconfig: text(),
    context: text(253),
    namespace: { ...dnsLabel, maxLength: 63 },
    mode: { enum: ['pods', 'agent-sandbox'] },
    warmPods: { type: 'integer', minimum: 0, maximum: 64, description: 'a whole number from 0 to 64' },
    image: text(255),
    runtimeClass: dnsLabel,
    processors: { type: 'number', exclusiveMinimum: 0, maximum: 1_024, description: 'a number above 0' },
    lifetimeMs: {
      type: 'integer',
      minimum: 60_000,
      maximum: 604_800_000,
      description: 'milliseconds, a minute to a week',
    },
  },
})

const withoutPools = 'has no effect without `mode: "agent-sandbox"`; set that, or leave it out'

/** The check of `KubernetesRuntimesOptions`. */
export const kubernetesChecks: { readonly kubernetes: Check } = {
  kubernetes: {
    schema: settings.schema,
    fits: (value) => settings.fits(value) && !hasUselessPools(value),
    issues: (value, path) => [
      ...settings.issues(value, path),
      ...(hasUselessPools(value) ? [{ path: `${path}/warmPods`, message: withoutPools }] : []),
    ],
  },
}

/** A setting that does nothing is more likely a mistake than a wish. */
function hasUselessPools(value: unknown): boolean {
  return isObject(value) && value.warmPods !== undefined && value.mode !== 'agent-sandbox'
}
