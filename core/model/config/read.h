/* Reads fields of the files beside a checkpoint. They are untrusted: a wrong type or an absurd number is BAD_FILE, with a message that
   names the file and the field. */
#ifndef RVIT_CORE_MODEL_CONFIG_READ_H
#define RVIT_CORE_MODEL_CONFIG_READ_H

#include "core/file/json.h"
#include "core/model/class_names.h"
#include "core/model/facts.h"
#include "core/model/unsupported.h"

typedef struct rvit_config_reader {
    const char *path;    /* printable */
    const char *name;    /* "config.json" */
    const char *section; /* the prefix of a field's name in messages: "vision_config.", "" */
    rvit_facts *facts;
    rvit_unsupported *unsupported;
    const struct rvit_processor_class **processor; /* of the model type; *processor is NULL if unknown */
    int32_t *has_processor;                        /* set once a file has an image processor */
    rvit_alloc *alloc;
    rvit_class_names *classes;
} rvit_config_reader;

/* "config.json: vision_config.hidden_act", the source of a fact or reason. */
const char *rvit_config_where(const rvit_config_reader *r, const char *field, char out[RVIT_FACT_WHERE]);
/* The same for a field that may be absent: "config.json: pretrained_cfg.crop_mode (default)". */
const char *rvit_config_where_default(const rvit_config_reader *r, const rvit_json *object, const char *field, char out[RVIT_FACT_WHERE]);
/* The member of an object; NULL if it is absent or null. */
const rvit_json *rvit_config_get(const rvit_json *object, const char *field);
/* Read the value of a field; if it is absent, *out does not change. */
rvit_status rvit_config_integer(const rvit_config_reader *r, const rvit_json *object, const char *field, int64_t min, int64_t max,
                                int64_t *out);
/* Above 0 and finite. */
rvit_status rvit_config_number(const rvit_config_reader *r, const rvit_json *object, const char *field, double *out);
rvit_status rvit_config_bool(const rvit_config_reader *r, const rvit_json *object, const char *field, int32_t *out);
rvit_status rvit_config_string(const rvit_config_reader *r, const rvit_json *object, const char *field, const char **out);
rvit_status rvit_config_object(const rvit_config_reader *r, const rvit_json *object, const char *field, const rvit_json **out);
/* Height and width: a number, a list of numbers or {"height": , "width": }. */
rvit_status rvit_config_size(const rvit_config_reader *r, const rvit_json *object, const char *field, double out[2], int32_t *out_given);

/* The same, setting a fact. */
rvit_status rvit_config_integer_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact);
rvit_status rvit_config_number_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact);
rvit_status rvit_config_size_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact);
/* One number for all channels or one for each of three, from least to 1. */
rvit_status rvit_config_colours_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, double min, rvit_fact fact);
/* The words that a field may have and their values; the last has word NULL. */
typedef struct rvit_config_word {
    const char *word;
    int32_t value;
} rvit_config_word;
/* Any other word adds a reason to `unsupported`. With names_it the reason names the word, and the fact is set, so that less trusted sources
   cannot set it. */
rvit_status rvit_config_word_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact,
                                  const rvit_config_word *words, int names_it);
rvit_status rvit_config_activation_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact);
/* Adds a reason for a field that changes the computation and is not supported. */
void rvit_config_unsupported(const rvit_config_reader *r, const char *field);

/* Read one format each; root: the file's object. */
rvit_status rvit_config_timm(const rvit_config_reader *r, const rvit_json *root);
rvit_status rvit_config_hf(const rvit_config_reader *r, const rvit_json *root);
rvit_status rvit_config_open_clip(const rvit_config_reader *r, const rvit_json *root);
rvit_status rvit_config_preprocessor(const rvit_config_reader *r, const rvit_json *root);
/* Check how the weights are quantized: in the quantization_config of a config.json, and in a hf_quant_config.json. Unknown values add
   reasons to `unsupported`. */
rvit_status rvit_config_quantization(const rvit_config_reader *r, const rvit_json *root);
rvit_status rvit_config_modelopt(const rvit_config_reader *r, const rvit_json *root);
/* The Hugging Face processor class of a model_type; NULL: unknown. */
const struct rvit_processor_class *rvit_processor_of_model(const char *model_type);

/* Sources, in order: the files beside `path`, "config" in the checkpoint's metadata, "architecture" in the metadata. Each may be NULL. */
typedef struct rvit_config_source {
    const char *path, *config, *architecture;
    const char *override; /* the text of a config.json that replaces all of these; NULL: none */
} rvit_config_source;
/* The caller frees *out_classes, even after a failure. */
rvit_status rvit_config_files(const rvit_config_source *source, rvit_alloc *alloc, rvit_facts *facts, rvit_unsupported *unsupported,
                              rvit_class_names *out_classes);

#endif
