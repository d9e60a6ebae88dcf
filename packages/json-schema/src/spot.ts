import type { JsonSchema } from '@gantry/contract'
import { join } from './node.ts'
import type { Place } from './place.ts'
import type { Registry } from './registry.ts'

/** One keyword in one schema while it is verified. */
export class Spot {
  readonly keyword: string
  readonly place: Place
  readonly registry: Registry

  constructor(keyword: string, place: Place, registry: Registry) {
    this.keyword = keyword
    this.place = place
    this.registry = registry
  }

  get path(): string {
    return join(this.place.path, this.keyword)
  }

  refuse(message: string, path: string = this.path): void {
    this.registry.refuse(path, this.keyword, message)
  }

  /** Queues a sub-schema; what is no schema at all is refused when its turn comes. */
  child(schema: unknown, path: string = this.path): void {
    this.registry.addChild(schema as JsonSchema, path, this.place.depth + 1, this.place.resource)
  }

  /** Counts text that a hostile schema could make large. */
  weigh(text: string): void {
    this.registry.text += text.length
  }
}
