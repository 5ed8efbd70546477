"""The types in infra/ that moto's CloudFormation leaves out, so that these stacks can be made whole.

moto skips them with a warning, says CREATE_COMPLETE, and then fails at whatever refers to one. It has a
backend for secrets, users, subnet groups, replication groups and scaling, which is what stands behind these;
parameter groups, user groups and alarms are only names here. They count from the import on, in this process.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Self

from moto.applicationautoscaling.models import applicationautoscaling_backends
from moto.cloudformation import parsing
from moto.core.common_models import CloudFormationModel
from moto.elasticache.models import elasticache_backends
from moto.elbv2.models import FakeLoadBalancer, FakeTargetGroup
from moto.secretsmanager.models import secretsmanager_backends

DYNAMIC = re.compile(r"\{\{resolve:secretsmanager:(?P<arn>.+):SecretString:(?P<key>\w+)\}\}")
"""A reference to a part of a secret, which CloudFormation replaces before it makes a resource."""

Properties = Mapping[str, Any]


class Resource:
    """What each of them does the same way."""

    def __init__(self, name: str, physical_id: str, attributes: Mapping[str, object] | None = None) -> None:
        self.name, self.physical_resource_id = name, physical_id
        self.attributes = dict(attributes or {})

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return True

    def get_cfn_attribute(self, attribute_name: str) -> object:
        return self.attributes[attribute_name]

    def is_created(self) -> bool:
        return True

    @classmethod
    def made(cls, name: str, properties: Properties, account_id: str, region_name: str) -> Self:
        """The resource, made in moto's backend where there is one."""
        return cls(name, name)

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **kwargs: Any
    ) -> Self:
        properties = _resolved(cloudformation_json["Properties"], account_id, region_name)
        return cls.made(resource_name, properties, account_id, region_name)

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: Any,
        new_resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
    ) -> Any:
        """As it was: no test changes one of these, only what stands around it."""
        return original_resource

    def delete(self, account_id: str, region_name: str) -> None:
        """Gone from moto's backend, too."""


class Secret(Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::SecretsManager::Secret"

    @classmethod
    def made(cls, name: str, properties: Properties, account_id: str, region_name: str) -> Self:
        backend = secretsmanager_backends[account_id][region_name]
        text = properties.get("SecretString")
        if asked := properties.get("GenerateSecretString"):
            password = _called(
                backend.get_random_password,
                {"ExcludeCharacters": "", "PasswordLength": 32, **asked},
                otherwise=False,
            )
            generated = json.loads(password)["RandomPassword"]
            text = json.dumps(
                {**json.loads(asked["SecretStringTemplate"]), asked["GenerateStringKey"]: generated}
            )
        made = _called(
            backend.create_secret, {"Name": name, "SecretString": text, "Tags": [], "ReplicaRegions": []}
        )
        return cls(name, json.loads(made)["ARN"])

    def delete(self, account_id: str, region_name: str) -> None:
        secretsmanager_backends[account_id][region_name].delete_secret(self.physical_resource_id, None, True)


class User(Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::ElastiCache::User"

    @classmethod
    def made(cls, name: str, properties: Properties, account_id: str, region_name: str) -> Self:
        mode = properties["AuthenticationMode"]
        plain = {**properties, "Passwords": mode["Passwords"], "AuthenticationType": mode["Type"]}
        user = _called(elasticache_backends[account_id][region_name].create_user, plain)
        return cls(name, user.id)

    def delete(self, account_id: str, region_name: str) -> None:
        elasticache_backends[account_id][region_name].users.pop(self.physical_resource_id)


class UserGroup(Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::ElastiCache::UserGroup"


class ParameterGroup(Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::ElastiCache::ParameterGroup"


class SubnetGroup(Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::ElastiCache::SubnetGroup"

    @classmethod
    def made(cls, name: str, properties: Properties, account_id: str, region_name: str) -> Self:
        about = {
            "CacheSubnetGroupName": name,
            "CacheSubnetGroupDescription": properties["Description"],
            "SubnetIds": properties["SubnetIds"],
        }
        _called(elasticache_backends[account_id][region_name].create_cache_subnet_group, about)
        return cls(name, name)

    def delete(self, account_id: str, region_name: str) -> None:
        del elasticache_backends[account_id][region_name].cache_subnet_groups[self.physical_resource_id]


class ReplicationGroup(Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::ElastiCache::ReplicationGroup"

    @classmethod
    def made(cls, name: str, properties: Properties, account_id: str, region_name: str) -> Self:
        about = {**properties, "ReplicationGroupId": name.lower()}
        group = _called(elasticache_backends[account_id][region_name].create_replication_group, about)
        endpoint = group.node_groups[0]["primary_endpoint"]
        attributes = {
            "PrimaryEndPoint.Address": endpoint["address"],
            "PrimaryEndPoint.Port": str(endpoint["port"]),
        }
        return cls(name, group.replication_group_id, attributes)

    def delete(self, account_id: str, region_name: str) -> None:
        elasticache_backends[account_id][region_name].delete_replication_group(
            self.physical_resource_id, False
        )


class ScalableTarget(Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::ApplicationAutoScaling::ScalableTarget"

    @classmethod
    def made(cls, name: str, properties: Properties, account_id: str, region_name: str) -> Self:
        place = [properties[key] for key in ("ServiceNamespace", "ResourceId", "ScalableDimension")]
        limits = [int(properties[key]) for key in ("MinCapacity", "MaxCapacity")]
        scaling: Any = applicationautoscaling_backends[account_id][region_name]
        scaling.register_scalable_target(*place, *limits, "", "")
        return cls(name, "|".join(place))

    def delete(self, account_id: str, region_name: str) -> None:
        scaling: Any = applicationautoscaling_backends[account_id][region_name]
        scaling.deregister_scalable_target(*self.physical_resource_id.split("|"))


class ScalingPolicy(Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::ApplicationAutoScaling::ScalingPolicy"

    @classmethod
    def made(cls, name: str, properties: Properties, account_id: str, region_name: str) -> Self:
        about = [properties["PolicyName"], *properties["ScalingTargetId"].split("|")]
        scaling: Any = applicationautoscaling_backends[account_id][region_name]
        scaling.put_scaling_policy(
            *about, properties["TargetTrackingScalingPolicyConfiguration"], properties["PolicyType"]
        )
        return cls(name, "|".join(about))

    def delete(self, account_id: str, region_name: str) -> None:
        scaling: Any = applicationautoscaling_backends[account_id][region_name]
        scaling.delete_scaling_policy(*self.physical_resource_id.split("|"))


class Alarm(Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::CloudWatch::Alarm"


def _called(function: Callable[..., Any], given: Properties, *, otherwise: object = None) -> Any:
    """What moto's `function` answers to what is `given` by AWS's names, with `otherwise` for the rest."""
    by_name = {name.lower(): value for name, value in given.items()}
    return function(
        **{
            name: by_name.get(name.replace("_", ""), otherwise)
            for name in inspect.signature(function).parameters
        }
    )


def _resolved(value: Any, account_id: str, region_name: str) -> Any:
    """`value` with every dynamic reference replaced."""
    match value:
        case dict():
            return {key: _resolved(item, account_id, region_name) for key, item in value.items()}
        case list():
            return [_resolved(item, account_id, region_name) for item in value]
        case str():
            secrets = secretsmanager_backends[account_id][region_name]

            def part(found: re.Match[str]) -> str:
                text = secrets.get_secret_value(found["arn"], "", "")["SecretString"]
                return str(json.loads(text)[found["key"]])

            return DYNAMIC.sub(part, value)
        case _:
            return value


def _full_name_of_target_group(group: FakeTargetGroup, attribute_name: str) -> str:
    assert attribute_name == "TargetGroupFullName"
    return str(group.arn.rpartition(":")[2])


_attribute_of_load_balancer = FakeLoadBalancer.get_cfn_attribute


def _full_name_of_load_balancer(balancer: FakeLoadBalancer, attribute_name: str) -> object:
    if attribute_name == "LoadBalancerFullName":
        return str(balancer.arn.partition("loadbalancer/")[2])
    return _attribute_of_load_balancer(balancer, attribute_name)


# The alarms look at these by names that moto does not give.
setattr(FakeTargetGroup, "get_cfn_attribute", _full_name_of_target_group)  # noqa: B010
setattr(FakeLoadBalancer, "get_cfn_attribute", _full_name_of_load_balancer)  # noqa: B010

for known in (parsing.get_model_list, parsing.get_model_map, parsing.get_name_type_map):
    known.cache_clear()
