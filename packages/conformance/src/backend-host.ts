import type { Tool } from '@gantry/contract'
import type { BackendHost, BackendReport } from '@gantry/core/internal/backends/backend'
import type { Egress } from '@gantry/core/internal/egress/egress'

/** A host for tests that use a backend without an executor; it remembers what it was told. */
export interface FakeHost extends BackendHost {
  readonly published: Tool[][]
  readonly reports: BackendReport[]
  readonly concealed: string[]
}

export function fakeHost(egress: Egress, secrets: { readonly [name: string]: string } = {}): FakeHost {
  const published: Tool[][] = []
  const reports: BackendReport[] = []
  const concealed: string[] = []
  return {
    egress,
    published,
    reports,
    concealed,
    secret: async (name) => {
      const value = secrets[name]
      if (value === undefined) throw new Error(`the test has no secret ${name}`)
      return value
    },
    conceal: (value) => void concealed.push(value),
    publish: async (tools) => {
      published.push([...tools])
      return { registered: tools.map(({ name }) => name), quarantined: [], refused: [] }
    },
    report: (report) => void reports.push(report),
  }
}
