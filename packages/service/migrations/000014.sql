-- What the gateway of a caller says of the occasion of a call, as JSON text: data for its tool, never identity.
alter table calls add column origin text;
